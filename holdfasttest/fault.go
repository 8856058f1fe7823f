package holdfasttest

import (
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// LoseSession ends the session of the replica in the store, as if the replica had not renewed it in
// time, and moves the clock until the replica has noticed. That takes at most one heartbeat (5 s by
// default). The contexts of running handlers then end with a cause that wraps
// storage.ErrSessionLost, and their fenced transactions return storage.ErrSuperseded. Their runs
// are recorded as lost, and run again if their jobs have Recover. The replica opens a new session.
func (s *Scheduler) LoseSession() {
	s.t.Helper()
	scheduler := s.inner.Scheduler()
	lost := scheduler.Session()
	if lost == uuid.Nil {
		s.t.Fatal("lose the session: the replica has none")
	}
	s.store.Expire(lost)
	for scheduler.Session() == lost {
		time.Sleep(longestLook)
		synctest.Wait()
	}
}

// Outage makes the database of the scheduler unavailable and moves the clock by d. Nothing starts
// meanwhile. After the lifetime of the session (15 s by default) the contexts of running handlers
// end, as after [Scheduler.LoseSession].
func (s *Scheduler) Outage(d time.Duration) {
	s.t.Helper()
	s.store.SetDown(true)
	defer s.store.SetDown(false)
	s.Advance(d)
}

// OutageOf makes a database of the section databases unavailable and moves the clock by d. Jobs of
// that database do not start meanwhile (the reason is reasons.DatabaseUnavailable), and their
// fenced transactions return an error. Other jobs go on.
func (s *Scheduler) OutageOf(database string, d time.Duration) {
	s.t.Helper()
	down, now := s.database(database), time.Now()
	down.downSince.Store(&now)
	defer down.downSince.Store(nil)
	s.Advance(d)
}
