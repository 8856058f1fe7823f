package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// fakeServers returns the servers of a test.
type fakeServers []memcached.Health

func (s *fakeServers) Servers() []memcached.Health { return *s }

// fakeRestarts stores restarts, or fails with err.
type fakeRestarts struct {
	notes []storage.Restart
	err   error
}

func (r *fakeRestarts) NoteRestart(_ context.Context, n storage.Restart) error {
	if r.err == nil {
		r.notes = append(r.notes, n)
	}
	return r.err
}

func (r *fakeRestarts) Restarts(context.Context, time.Time, time.Time) ([]storage.Restart, error) {
	return r.notes, r.err
}

// TestRestartIsRecordedOnce restarts two servers, one of them while the store fails. The first
// start that the recorder sees is no restart.
func TestRestartIsRecordedOnce(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0).UTC() }
	servers := &fakeServers{{Server: "a"}, {Server: "b", StartedAt: at(1)}}
	store := &fakeRestarts{}
	recorder := restartRecorder{servers: servers, store: store, replica: "replica-1",
		log: zerolog.Nop()}
	check := func(want int) {
		t.Helper()
		for range 2 {
			recorder.check(t.Context())
		}
		if len(store.notes) != want {
			t.Fatalf("recorded %+v, want %d restarts", store.notes, want)
		}
	}
	check(0)
	(*servers)[0].StartedAt = at(5)
	check(0)
	(*servers)[1].StartedAt = at(7)
	check(1)
	if got, want := store.notes[0],
		(storage.Restart{Server: "b", StartedAt: at(7), NoticedBy: "replica-1"}); got != want {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
	store.err = errors.New("down")
	(*servers)[0].StartedAt = at(9)
	check(1)
	store.err = nil
	check(2)
}
