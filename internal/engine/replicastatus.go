package engine

import (
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"time"
)

// replicaStatus returns the status for the next heartbeat.
func (e *engine) replicaStatus() storage.ReplicaStatus {
	v := storage.ReplicaStatus{Workers: e.workers.all, Busy: int(e.workers.busy.Load())}
	if offset, measured := e.clock.offset(time.Now()); measured {
		v.ClockOffset = &offset
	}
	if err := e.clockLimit.check(time.Now()); err != nil {
		v.NotReady = err.Error()
	}
	return v
}
