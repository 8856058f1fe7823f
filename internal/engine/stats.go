package engine

import "time"

// Stats are figures of a replica at one point in time, known without asking the store.
type Stats struct {
	Workers int
	Busy    int // of the workers
	Running int // attempts that have a claim
	// all other runs that this replica tracks: they are queued, wait, start or end
	Waiting int
	Queued  int // firings that wait for a worker
	Parked  int // firings that wait for a slot of their group, or for a slot of late runs

	Session        bool // it has a session in the store
	SessionsOpened int64
	SessionsLost   int64 // not confirmed in time, or ended by the store

	Ready       bool // Ready returns nil
	Jobs        int  // in its cron table
	ClockOffset time.Duration
	ClockKnown  bool // the offset was measured
	ServerLists int  // as ServerLists returns it
	CronTables  int  // as CronTables returns it
	Dropped     int64

	SealsAudit  bool          // it adds links to the audit log
	UnsealedAge time.Duration // of the oldest entry of the audit log without a link
}

// Stats returns the current figures of this replica.
func (s *Scheduler) Stats() Stats {
	f := Stats{
		Workers: s.workers.all, Busy: int(s.workers.busy.Load()), Running: s.active.len(),
		Jobs:    s.table.len(),
		Session: s.keeper.session() != nil, SessionsOpened: s.keeper.Opened(),
		SessionsLost: s.keeper.Lost(),
		ServerLists:  s.ServerLists(), CronTables: s.CronTables(), Dropped: s.EventsDropped(),
		SealsAudit: s.sealer.enabled, UnsealedAge: s.sealer.unsealedAge(),
	}
	f.Waiting = max(0, s.active.trackedLen()-f.Running)
	f.Queued, f.Parked = s.ready.lens()
	f.ClockOffset, f.ClockKnown = s.clock.offset(time.Now())
	f.Ready = s.readiness() == nil
	return f
}
