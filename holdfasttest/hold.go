package holdfasttest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Hold is a set of locks, held as by a run on another replica. The test releases them.
type Hold struct {
	s       *Scheduler
	request storage.StartRequest
	token   jobs.Token
}

// HoldJob is the name of the job that holds the locks of [Scheduler.Hold]. The records of runs that
// wait for these locks name it as the holder.
const HoldJob = "holdfasttest-hold"

// holdTTL is the lifetime of the session of a hold: longer than any test.
const holdTTL = 100 * 365 * 24 * time.Hour

// Hold locks the tables exclusively, as a run of another replica does, until [Hold.Release] or the
// end of the test. Names are those of Writes in a holdfast.Job. It fails the test if a run holds
// one of them.
func (s *Scheduler) Hold(tables ...string) *Hold {
	s.t.Helper()
	var requests []locking.Request
	for _, name := range tables {
		table, err := locking.Table(name, s.inner.Config().DefaultSchema)
		if err != nil {
			s.t.Fatalf("hold table %q: %v", name, err)
		}
		requests = append(requests, locking.Request{Resource: table, Mode: locking.Exclusive})
	}
	return s.HoldRequests(requests...)
}

// HoldRequests is [Scheduler.Hold] for locks of all kinds.
func (s *Scheduler) HoldRequests(requests ...locking.Request) *Hold {
	s.t.Helper()
	normal, err := locking.Normalize(requests)
	if err != nil {
		s.t.Fatalf("hold %v: %v", requests, err)
	}
	ctx, session, now := context.Background(), uuid.New(), time.Now().UTC()
	another := storage.Session{ID: session, Replica: "another", TTL: holdTTL}
	if err := s.store.Open(ctx, another); err != nil {
		s.t.Fatal(err)
	}
	h := &Hold{s: s, request: storage.StartRequest{Run: uuid.New(), Attempt: 1, Requests: normal,
		Firing: storage.Firing{Job: HoldJob, ScheduledAt: now, Key: uuid.NewString()},
		// older than all runs of the test, so that it waits behind none of them
		WaitSince: time.Unix(0, 0).UTC()}}
	results, err := s.store.Start(ctx, session, []storage.StartRequest{h.request})
	switch {
	case err != nil:
		s.t.Fatal(err)
	case results[0].Blocker != nil:
		s.t.Fatalf("hold %v: %s", requests, results[0].Blocker.Words("is held by"))
	case results[0].Outcome != storage.StartGranted:
		s.t.Fatalf("hold %v: refused (%d)", requests, results[0].Outcome)
	}
	h.token = results[0].Token
	return h
}

// Release releases the locks. Runs that wait for them start when the clock moves. Further calls do
// nothing.
func (h *Hold) Release() {
	h.s.t.Helper()
	if _, err := h.s.store.Finish(context.Background(), []storage.FinishRequest{
		{Run: h.request.Run, Token: h.token, State: jobs.Succeeded}}); err != nil {
		h.s.t.Fatal(err)
	}
}
