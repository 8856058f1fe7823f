package jobs

import "time"

// Stats are what a replica can say of itself at a moment, without asking
// anybody.
type Stats struct {
	Workers int
	Busy    int // of the workers
	Running int // attempts whose claim this replica has
	// runs that it cares for beside those: adopted and queued, wait for locks or their turn, start
	// or end
	Waiting int
	Queued  int // firings that wait for a worker
	Parked  int // firings that wait for a place of their group, or among late runs

	Session        bool // it has one in the store
	SessionsOpened int64
	SessionsLost   int64 // they could not be confirmed in time, or the store ended them

	Ready       bool // as Ready says
	Jobs        int  // of its cron table
	ClockOffset time.Duration
	ClockKnown  bool // the offset was measured
	ServerLists int  // as ServerLists returns it
	CronTables  int  // as CronTables returns it
	Dropped     int64
}

// Stats returns what this replica can say of itself now.
func (s *Scheduler) Stats() Stats {
	e := s.engine
	f := Stats{
		Workers: e.workers.all, Busy: int(e.workers.busy.Load()), Running: e.active.len(),
		Jobs:    s.table.len(),
		Session: s.keeper.session() != nil, SessionsOpened: s.keeper.Opened(),
		SessionsLost: s.keeper.Lost(),
		ServerLists:  s.ServerLists(), CronTables: s.CronTables(), Dropped: s.EventsDropped(),
	}
	f.Waiting = max(0, e.active.caredFor()-f.Running)
	f.Queued, f.Parked = s.dispatcher.ready.lens()
	f.ClockOffset, f.ClockKnown = e.clock.offset(time.Now())
	f.Ready = s.readiness() == nil
	return f
}
