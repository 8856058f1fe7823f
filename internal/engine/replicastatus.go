package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// replicaStatus returns the status for the next heartbeat.
func replicaStatus(w *workers, clock *clusterClock, limit *clockLimit,
	databases Databases, stopping bool) storage.ReplicaStatus {
	v := storage.ReplicaStatus{Workers: w.all, Busy: int(w.busy.Load()),
		Databases: databases.states(), Stopping: stopping}
	if offset, measured := clock.offset(time.Now()); measured {
		v.ClockOffset = &offset
	}
	if err := limit.check(time.Now()); err != nil {
		v.NotReady = err.Error()
	}
	return v
}
