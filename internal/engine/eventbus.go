package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	eventQueue = 4096 // capacity of a listener's queue
	eventGrace = 5 * time.Second
	eventLog   = 10 * time.Second // between two log lines about dropped events
)

// eventBus sends events to the listeners of a replica. A nil eventBus has no listeners.
type eventBus struct {
	observer func(*jobs.Event) // called synchronously; may be nil
	members  []*member
	log      zerolog.Logger
}

// member is one listener with its queue.
type member struct {
	listener jobs.Listener
	queue    chan *jobs.Event
	dropped  atomic.Int64
	mu       sync.Mutex
	logged   time.Time
}

func newEventBus(observer func(*jobs.Event), listeners []jobs.Listener,
	log zerolog.Logger) *eventBus {
	a := &eventBus{observer: observer, log: log}
	for _, l := range listeners {
		a.members = append(a.members,
			&member{listener: l, queue: make(chan *jobs.Event, eventQueue)})
	}
	return a
}

// hasListeners reports whether there is any listener.
func (a *eventBus) hasListeners() bool {
	return a != nil && (a.observer != nil || len(a.members) > 0)
}

// publish queues the event for every listener, after it has called the observer. The event must not
// be changed afterwards.
func (a *eventBus) publish(e *jobs.Event) {
	if !a.hasListeners() {
		return
	}
	if a.observer != nil {
		a.observer(e)
	}
	for n, m := range a.members {
		select {
		case m.queue <- e:
		default:
			m.drop(n, a.log)
		}
	}
}

func (m *member) drop(number int, log zerolog.Logger) {
	dropped := m.dropped.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.logged.IsZero() || now.Sub(m.logged) >= eventLog {
		m.logged = now
		log.Warn().Int("listener", number).Int64("dropped", dropped).
			Msg("events dropped, listener is too slow")
	}
}

// run delivers events until ctx ends and the queues are empty, or the grace period has ended.
func (a *eventBus) run(ctx context.Context) {
	if !a.hasListeners() {
		return
	}
	delivery, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		var all sync.WaitGroup
		for n, m := range a.members {
			all.Go(func() { m.deliver(ctx, delivery, n, a.log) })
		}
		all.Wait()
	}()
	<-ctx.Done()
	select {
	case <-delivered:
	case <-time.After(eventGrace):
		a.log.Warn().Msg("events dropped at shutdown, listeners are too slow")
	}
}

// deliver calls the listener for each event until ctx has ended and the queue is empty, or delivery
// has ended.
func (m *member) deliver(ctx, delivery context.Context, number int, log zerolog.Logger) {
	for delivery.Err() == nil {
		select {
		case e := <-m.queue:
			m.call(delivery, e, number, log)
			continue
		default:
		}
		select {
		case e := <-m.queue:
			m.call(delivery, e, number, log)
		case <-ctx.Done():
			if len(m.queue) == 0 {
				return
			}
		}
	}
}

func (m *member) call(ctx context.Context, e *jobs.Event, number int, log zerolog.Logger) {
	defer func() {
		if value := recover(); value != nil {
			log.Error().Int("listener", number).Str("event", string(e.Kind)).
				Str("panic", fmt.Sprint(value)).Msg("listener panicked")
		}
	}()
	m.listener(ctx, *e)
}

// droppedLen returns how many events were dropped because listeners were too slow.
func (a *eventBus) droppedLen() int64 {
	var dropped int64
	for _, m := range a.members {
		dropped += m.dropped.Load()
	}
	return dropped
}
