package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestReplicaWaitsForItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var tries []time.Duration
		begun := time.Now()
		err := openWhenAvailable(t.Context(), func(context.Context) error {
			if tries = append(tries, time.Since(begun)); len(tries) < 9 {
				return fmt.Errorf("%w: connection refused", storage.ErrUnavailable)
			}
			return nil
		}, zerolog.New(&log))
		if err != nil || len(tries) != 9 {
			t.Errorf("got %v after %d tries, want success after 9", err, len(tries))
		}
		for i := 1; i < len(tries); i++ {
			delay := tries[i] - tries[i-1]
			most := min(time.Second<<(i-1), 30*time.Second)
			if delay > most || delay < most*8/10 {
				t.Errorf("try %d was %s after the one before, want at most %s", i+1, delay, most)
			}
		}
		if text := log.String(); strings.Count(text, "the replica waits for it") != 8 ||
			strings.Count(text, `"message":"database answers"`) != 1 ||
			!strings.Contains(text, "connection refused") ||
			!strings.Contains(text, `"again_in":`) {
			t.Errorf("got the log %s", text)
		}
	})
}

func TestReplicaDoesNotWaitForMistakes(t *testing.T) {
	mistake := errors.New("the schema is too new")
	var log bytes.Buffer
	err := openWhenAvailable(t.Context(), func(context.Context) error { return mistake },
		zerolog.New(&log))
	if !errors.Is(err, mistake) || log.Len() > 0 {
		t.Errorf("got %v and the log %s, want the mistake at once", err, &log)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	err = openWhenAvailable(ctx, func(context.Context) error {
		cancel(stop)
		return storage.ErrUnavailable
	}, zerolog.New(&log))
	if !errors.Is(err, stop) {
		t.Errorf("after the end of its context: got %v, want its cause", err)
	}
}
