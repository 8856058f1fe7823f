package engine

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Events that do not fit in the queue of a slow listener are counted. The log reports them from
// time to time. At the end the listener still gets the events in its queue.
func TestSlowListenerLosesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		heard, quick := 0, 0
		turn := make(chan struct{})
		a := newEventBus(nil, []jobs.Listener{
			func(context.Context, jobs.Event) {
				if heard == 0 {
					<-turn
				}
				heard++
			},
			func(context.Context, jobs.Event) { quick++ },
		}, zerolog.New(&log))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.run(ctx)
		}()
		const reported = eventQueue + 1000
		for range reported {
			a.publish(&jobs.Event{Kind: jobs.EventStarted})
			synctest.Wait()
			time.Sleep(25 * time.Millisecond) // 25 s for the last 1000
		}
		if dropped := a.members[0].dropped.Load(); dropped != 999 ||
			a.members[1].dropped.Load() != 0 {
			// the listener is handling one event
			t.Errorf("%d events were dropped", dropped)
		}
		if lines := strings.Count(log.String(), "listener is too slow"); lines != 3 {
			t.Errorf("got %d log lines about dropped events: %s", lines, log.String())
		}
		cancel()
		close(turn)
		<-ended
		if heard != eventQueue+1 || quick != reported {
			t.Errorf("heard %d and %d events", heard, quick)
		}
	})
}

func TestEventsWithoutListeners(t *testing.T) {
	a := newEventBus(nil, nil, zerolog.Nop())
	a.publish(&jobs.Event{})
	a.run(t.Context()) // returns at once
	var none *eventBus
	none.publish(&jobs.Event{})
}
