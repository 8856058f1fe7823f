package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// someServers answers with what a test says.
type someServers []memcached.Health

func (s *someServers) Servers() []memcached.Health { return *s }

// restartsWritten keeps what is written down, unless it fails.
type restartsWritten struct {
	notes []jobs.Restart
	err   error
}

func (r *restartsWritten) NoteRestart(_ context.Context, n jobs.Restart) error {
	if r.err == nil {
		r.notes = append(r.notes, n)
	}
	return r.err
}

func (r *restartsWritten) Restarts(context.Context, time.Time, time.Time) ([]jobs.Restart, error) {
	return r.notes, r.err
}

// TestRestartsAreWrittenDownOnce has a server restart, twice, the second time
// while the store is down; what it was before anybody looked is no restart.
func TestRestartsAreWrittenDownOnce(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0).UTC() }
	servers := &someServers{{Server: "a"}, {Server: "b", StartedAt: at(1)}}
	store := &restartsWritten{}
	notes := restartNotes{servers: servers, store: store, replica: "replica-1", log: zerolog.Nop()}
	look := func(want int) {
		t.Helper()
		for range 2 {
			notes.look(t.Context())
		}
		if len(store.notes) != want {
			t.Fatalf("written down are %+v, expected %d", store.notes, want)
		}
	}
	look(0)
	(*servers)[0].StartedAt = at(5)
	look(0)
	(*servers)[1].StartedAt = at(7)
	look(1)
	if got, want := store.notes[0],
		(jobs.Restart{Server: "b", StartedAt: at(7), NoticedBy: "replica-1"}); got != want {
		t.Errorf("written down is %+v, want %+v", got, want)
	}
	store.err = errors.New("down")
	(*servers)[0].StartedAt = at(9)
	look(1)
	store.err = nil
	look(2)
}
