package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// silent is a backend that fails all reads.
type silent struct {
	locking.Backend
	asked *int // number of reads; nil: not counted
}

func (s silent) Get(ctx context.Context, _ ...string) (map[string][]byte, error) {
	if s.asked != nil {
		*s.asked++
	}
	return nil, fmt.Errorf("%w: silent", locking.ErrUnavailable)
}

func newSieving(t *testing.T, b locking.Backend) *prefilter {
	t.Helper()
	locker, err := locking.New(b,
		locking.Options{Namespace: "test", Lease: time.Minute, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return &prefilter{locker: locker, log: zerolog.Nop(), ready: newReady("replica-1", 1)}
}

func (d *prefilter) pushFiring(n int) {
	for i := range n {
		d.ready.push(pending{entry: &entry{},
			Firing: storage.Firing{Job: fmt.Sprintf("job-%d", i), ScheduledAt: time.Unix(100, 0)}})
	}
}

// beginElsewhere makes another replica win the gate of the firing.
func beginElsewhere(t *testing.T, b locking.Backend, f storage.Firing) {
	t.Helper()
	if won, err := newSieving(t, b).locker.Gate(t.Context(), gateName(f, 0), time.Minute); !won ||
		err != nil {
		t.Fatalf("gate: got %t (%v), want it won", won, err)
	}
}

func TestPrefilterDropsStartedFirings(t *testing.T) {
	backend := memory.New()
	d := newSieving(t, backend)
	d.pushFiring(20)
	for i := range 15 {
		beginElsewhere(t, backend, storage.Firing{Job: fmt.Sprintf("job-%d", i),
			ScheduledAt: time.Unix(100, 0)})
	}
	// the same job at another scheduled time
	beginElsewhere(t, backend, storage.Firing{Job: "job-19", ScheduledAt: time.Unix(99, 0)})
	first, _ := d.ready.pop()
	if !d.isWorthwhile(first, time.Now()) {
		t.Fatal("isWorthwhile for 20 firings: got false, want true")
	}
	d.drop(t.Context(), first)
	left := map[string]bool{}
	for p, ok := d.ready.pop(); ok; p, ok = d.ready.pop() {
		if left[p.Job] = true; d.isWorthwhile(p, time.Now()) {
			t.Errorf("%s would be looked at again", p.Job)
		}
	}
	if len(left) != 5 || !left["job-15"] || !left["job-16"] || !left["job-17"] || !left["job-18"] ||
		!left["job-19"] {
		t.Errorf("left are %v", left)
	}
}

func TestPrefilterKeepsAdoptedRuns(t *testing.T) {
	backend := memory.New()
	d := newSieving(t, backend)
	scheduledAt := storage.Firing{Job: "lost", ScheduledAt: time.Unix(100, 0), Recovery: 1}
	beginElsewhere(t, backend, scheduledAt) // the gate of the first attempt
	d.ready.push(pending{entry: &entry{}, Firing: scheduledAt, adopted: uuid.New()})
	first, _ := d.ready.pop()
	d.drop(t.Context(), first)
	if d.ready.len() != 1 {
		t.Error("adopted run: got it dropped, want it kept")
	}
}

func TestPrefilterKeepsAllAfterAnError(t *testing.T) {
	asked := 0
	d := newSieving(t, silent{memory.New(), &asked})
	d.pushFiring(40)
	first, _ := d.ready.pop()
	d.drop(t.Context(), first)
	if d.ready.len() != 40 {
		t.Errorf("%d of 40 firings are left", d.ready.len())
	}
	next, _ := d.ready.pop()
	next.looked = false
	if d.drop(t.Context(), next); asked != 1 {
		t.Errorf("it asked %d times, want that it does not ask again at once", asked)
	}
}

func TestFewFiringsAreNotPrefiltered(t *testing.T) {
	d := newSieving(t, memory.New())
	d.pushFiring(prefilterMin)
	first, _ := d.ready.pop()
	if d.isWorthwhile(first, time.Now()) {
		t.Errorf("%d firings are worth a request before their own", prefilterMin)
	}
}

func TestPassedGates(t *testing.T) {
	backend := memory.New()
	locker := newSieving(t, backend).locker
	beginElsewhere(t, backend, storage.Firing{Job: "job", ScheduledAt: time.Unix(1, 0)})
	taken, free := gateName(storage.Firing{Job: "job", ScheduledAt: time.Unix(1, 0)}, 0),
		gateName(storage.Firing{Job: "job", ScheduledAt: time.Unix(2, 0)}, 0)
	passed, err := locker.Passed(t.Context(), []string{taken, free})
	if err != nil || !passed[taken] || passed[free] {
		t.Errorf("got %v, %v", passed, err)
	}
	if won, err := locker.Gate(t.Context(), free, time.Minute); !won || err != nil {
		t.Errorf("looking has closed the gate: %v", err)
	}
	if _, err := newSieving(t, silent{backend, nil}).
		locker.Passed(t.Context(), []string{taken}); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, locking.ErrUnavailable)
	}
}
