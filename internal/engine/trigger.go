package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// triggers adds runs of triggers, and adopts them at once while this replica has free workers. It
// may be used concurrently.
type triggers struct {
	store    triggerStore
	keeper   *keeper
	adopter  *adopter
	stopping <-chan struct{}
	coming   atomic.Int64 // triggers under way whose runs this replica adopts
}

// Trigger is storage.Actions.Trigger of the store. If this replica has the job, a free worker and a
// free slot of the job's group, it adopts the run in the transaction that adds it, and starts it
// without a poll. Otherwise any replica may adopt the run.
func (s *Scheduler) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	return s.triggers.trigger(ctx, a, r)
}

func (t *triggers) trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	e, session := t.adopts(r, int(t.coming.Add(1)))
	if e == nil {
		t.coming.Add(-1)
		return t.store.Trigger(ctx, a, r)
	}
	defer t.coming.Add(-1)
	r.Run, r.Adopter = uuid.Must(uuid.NewV7()), session.ID
	done := t.adopter.active.track(r.Run)
	answer, err := t.store.Trigger(ctx, a, r)
	if err != nil || !answer.Adopted() {
		done() // if the reply was lost, the next adoption returns the run
		return answer, err
	}
	t.adopter.begin(e, session, answer.Record, done)
	return answer, nil
}

// adopts returns the job and the session that adopts the run of the request, or nil: the run must
// wait, or there may be older runs without a session. coming is the number of runs that this
// replica is about to adopt, with this one.
func (t *triggers) adopts(r storage.TriggerRequest, coming int) (*entry, *liveSession) {
	select {
	case <-t.stopping:
		return nil, nil
	default:
	}
	a := t.adopter
	e, session := a.table.get(r.Job), t.keeper.session()
	if r.Later() || e == nil || session == nil || e.activeVersion.stale() ||
		a.left.Load() || a.ready.len()+coming > a.workers.free() ||
		a.controlState.draining() || a.clockLimit.check(time.Now()) != nil ||
		!a.ready.hasRoom(e, coming) {
		return nil, nil
	}
	return e, session
}
