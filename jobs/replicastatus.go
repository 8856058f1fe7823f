package jobs

import "time"

// OffsetMilliseconds returns the clock offset in milliseconds; nil if it is unknown.
func (v ReplicaStatus) OffsetMilliseconds() *int64 {
	if v.ClockOffset == nil {
		return nil
	}
	ms := v.ClockOffset.Round(time.Millisecond).Milliseconds()
	return &ms
}

// replicaStatus returns the status for the next heartbeat.
func (e *engine) replicaStatus() ReplicaStatus {
	v := ReplicaStatus{Workers: e.workers.all, Busy: int(e.workers.busy.Load())}
	if offset, measured := e.clock.offset(time.Now()); measured {
		v.ClockOffset = &offset
	}
	if err := e.clockLimit.check(time.Now()); err != nil {
		v.NotReady = err.Error()
	}
	return v
}
