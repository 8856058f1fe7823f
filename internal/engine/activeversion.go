package engine

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// activeVersion is the active version of a job and the version that this replica has, as last read
// from the store. The session's keeper sets it. It may be read concurrently.
type activeVersion struct {
	version atomic.Int64 // version of this replica's definition; 0 until it is registered
	active  atomic.Int64 // version of the active definition
	decided atomic.Int64 // the job's cursor, in microseconds since 1970
}

// register sets the version of this replica's definition. It counts as active until the active
// version is known.
func (s *activeVersion) register(version int64) {
	s.version.Store(version)
	s.active.CompareAndSwap(0, version)
}

// own returns the version of this replica's definition; 0 until it is registered.
func (s *activeVersion) own() int64 { return s.version.Load() }

// current returns the version of the active definition; 0 until it is known.
func (s *activeVersion) current() int64 { return s.active.Load() }

// stale reports whether this replica must not fire the job: another definition is active, or the
// active definition and the cursor are not known yet.
func (s *activeVersion) stale() bool { return !s.known() || s.otherIsActive() }

// known reports whether the active version was read from the store.
func (s *activeVersion) known() bool { return s.version.Load() != 0 && s.decided.Load() != 0 }

// otherIsActive reports whether another definition is known to be active.
func (s *activeVersion) otherIsActive() bool { return s.version.Load() != s.active.Load() }

// decidedUntil returns the time up to which all scheduled times have a run or a record, or do not
// count. It may lag behind the store.
func (s *activeVersion) decidedUntil() time.Time { return time.UnixMicro(s.decided.Load()).UTC() }

func (s *activeVersion) decide(until time.Time) { s.decided.Store(until.UnixMicro()) }

// update sets the active version. It reports whether this replica begins or stops to fire the job.
func (s *activeVersion) update(now storage.ActiveDefinition) (changed bool) {
	before := s.stale()
	s.decide(now.CheckedUntil)
	s.active.Store(now.Version)
	return s.stale() != before
}

// oldest returns the time after which scheduled times may still be started at now, if their delays
// allow it. Earlier ones belong to the misfire policy, or do not count.
func (e *entry) oldest(now time.Time) time.Time {
	oldest := now.Add(-e.MisfireThreshold - e.Schedule.MaxDelay())
	if decided := e.activeVersion.decidedUntil(); decided.After(oldest) {
		return decided
	}
	return oldest
}
