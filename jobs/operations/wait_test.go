package operations

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// history answers from a list of runs that grows with time.
type history struct {
	Lookup
	at func(since time.Duration) ([]storage.Record, error)

	begun time.Time
	reads int
}

func (h *history) Run(_ context.Context, id uuid.UUID) (storage.Record, error) {
	h.reads++
	runs, err := h.at(time.Since(h.begun))
	if err != nil {
		return storage.Record{}, err
	}
	for _, r := range runs {
		if r.ID == id {
			return r, nil
		}
	}
	return storage.Record{}, storage.ErrNotFound
}

func (h *history) FiringRuns(context.Context, storage.Firing) ([]storage.Record, error) {
	return h.at(time.Since(h.begun))
}

func TestWaitGoesOnWithTheRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		first := storage.Record{ID: uuid.New(), Job: "j", ScheduledAt: at, Key: "k",
			KeyActor: "ann"}
		second, other, third := first, first, first
		second.ID, second.Recovery = uuid.New(), 1
		// a recovery of another actor's run with the same key
		other.ID, other.Recovery, other.KeyActor = uuid.New(), 1, "bob"
		// a recovery of an earlier run with the same key
		third.ID, third.Recovery, third.ScheduledAt = uuid.New(), 1, at.Add(-time.Second)
		in := func(r storage.Record, state jobs.State) storage.Record {
			r.State = state
			return r
		}
		h := &history{begun: at, at: func(since time.Duration) ([]storage.Record, error) {
			switch {
			case since < 10*time.Second:
				return []storage.Record{in(first, jobs.Running)}, nil
			case since < 20*time.Second:
				return nil, storage.ErrUnavailable
			case since < 30*time.Second:
				return []storage.Record{in(first, jobs.Lost), in(other, jobs.Failed),
					in(third, jobs.Failed), in(second, jobs.Waiting)}, nil
			}
			return []storage.Record{in(first, jobs.Lost), in(other, jobs.Failed),
				in(third, jobs.Failed), in(second, jobs.Succeeded)}, nil
		}}
		got, err := New(Options{Lookup: h}).Wait(t.Context(), first.ID)
		if err != nil || got.ID != second.ID || got.State != jobs.Succeeded {
			t.Errorf("got %+v, %v, want the recovery", got, err)
		}
		if took := time.Since(at); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it took %s, want the run's 30s and at most a second more", took)
		}
		if h.reads > 60 {
			t.Errorf("it read %d times in 30s", h.reads)
		}
	})
}

func TestWaitEndsWithALostRunThatIsNotRecovered(t *testing.T) {
	lost := storage.Record{ID: uuid.New(), State: jobs.Lost}
	h := &history{at: func(time.Duration) ([]storage.Record, error) {
		return []storage.Record{lost}, nil
	}}
	o := New(Options{Lookup: h})
	if got, err := o.Wait(t.Context(), lost.ID); err != nil || got.State != jobs.Lost {
		t.Errorf("got %+v, %v, want the lost run", got, err)
	}
	if _, err := o.Wait(t.Context(), uuid.New()); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an unknown run: got %v, want ErrNotFound", err)
	}
}
