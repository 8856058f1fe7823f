package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// waitingRun adds a run of the session that waits for a table, which is free afterwards.
func (s *harness) waitingRun(r storage.StartRequest) (session [16]byte) {
	s.t.Helper()
	id := s.session(s.a, "a")
	holder := request(s.t, "holder", "orders")
	run := s.granted(s.b, s.session(s.b, "b"), holder)
	s.expect(s.start(s.a, id, r), storage.StartBlocked)
	if _, err := s.b.Finish(s.t.Context(),
		[]storage.FinishRequest{{Run: run.ID, Token: run.Token,
			State: jobs.Succeeded}}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// A start that has read a run before a cancel of it must not write what it read.
func TestStartWaitsForACancelOfItsRun(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	r := request(t, "job", "orders")
	session := s.waitingRun(r)
	resume := s.pause("b", "holdfast.runs", "UPDATE", "NEW.state = 'cancelled'")
	cancelled := make(chan error, 1)
	go func() {
		_, err := s.b.Cancel(t.Context(), operator, r.Run)
		cancelled <- err
	}()
	awaitWaiting(s, "b", cancelled)
	done := s.start(s.a, session, r)
	awaitWaiting(s, "a", done)
	resume()
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	s.expect(done, storage.StartDuplicate)
	if n := query[int](s, "SELECT count(*) FROM holdfast.claims"); n != 0 ||
		s.state(r.Run) != "cancelled" {
		t.Errorf("%d claims, run is %s", n, s.state(r.Run))
	}
}

// The same holds for a note.
func TestNoteWaitsForACancelOfItsRun(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	r := request(t, "job", "orders")
	session := s.waitingRun(r)
	resume := s.pause("b", "holdfast.runs", "UPDATE", "NEW.state = 'cancelled'")
	cancelled := make(chan error, 1)
	go func() {
		_, err := s.b.Cancel(t.Context(), operator, r.Run)
		cancelled <- err
	}()
	awaitWaiting(s, "b", cancelled)
	noted := make(chan bool, 1)
	go func() {
		accepted, err := s.a.Note(t.Context(), session, []storage.Note{{
			Run: r.Run, Firing: r.Firing, State: jobs.Waiting, Reason: reasons.LockHeld,
			Requests: r.Requests, WaitSince: r.WaitSince,
		}})
		if err != nil {
			t.Errorf("note: %v", err)
			accepted = []bool{true}
		}
		noted <- accepted[0]
	}()
	awaitWaiting(s, "a", noted)
	resume()
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if <-noted {
		t.Error("note of a cancelled run: got it written, want it refused")
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 ||
		s.state(r.Run) != "cancelled" {
		t.Errorf("%d waits, run is %s", n, s.state(r.Run))
	}
}

// The run has no wait when the cancel looks for one, and has one when the cancel has locked the
// run.
func TestCancelIsRetriedWhenItsRunStartsToWait(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	resume := s.pause("a", "holdfast.runs", "UPDATE", "NEW.state = 'waiting'")
	finished := make(chan error, 1)
	go func() {
		_, err := s.a.Finish(t.Context(),
			[]storage.FinishRequest{{Run: run.ID, Token: run.Token, State: jobs.Waiting}})
		finished <- err
	}()
	awaitWaiting(s, "a", finished)
	cancelled := make(chan error, 1)
	go func() {
		record, err := s.b.Cancel(t.Context(), operator, run.ID)
		if err == nil && record.State != jobs.Cancelled {
			t.Errorf("got %+v", record)
		}
		cancelled <- err
	}()
	awaitWaiting(s, "b", cancelled)
	resume()
	if err := <-finished; err != nil {
		t.Error(err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 ||
		s.state(run.ID) != "cancelled" {
		t.Errorf("%d waits, run is %s", n, s.state(run.ID))
	}
}

// A start decides on a firing that it is writing as if the pause came later.
func TestPauseDuringAStart(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		session := s.session(s.a, "a")
		resume := s.pause("a", "holdfast.runs", "INSERT", "true")
		done := s.start(s.a, session, ask(request(t, "job", "orders")))
		awaitWaiting(s, "a", done)
		s.pauseAll()
		resume()
		s.expect(done, storage.StartGranted)
	})
}

// A pause that comes while a start waits for a fence holds the start back.
func TestPauseBeforeAStartWritesLeavesNoRun(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		session := s.session(s.a, "a")
		r := ask(request(t, "job", "orders"))
		s.fences("table:public", "table:public/orders")
		release := s.lockFences(s.b)
		done := s.start(s.a, session, r)
		awaitWaiting(s, "a", done)
		s.pauseAll()
		release()
		s.expect(done, storage.StartPaused)
		if n := query[int](s, "SELECT count(*) FROM holdfast.runs"); n != 0 {
			t.Errorf("%d runs of a paused job, want none", n)
		}
	})
}

func (s *harness) pauseAll() {
	s.t.Helper()
	if _, err := s.b.Pause(s.t.Context(), operator,
		storage.Target{Kind: storage.TargetAll}); err != nil {
		s.t.Fatal(err)
	}
}

// Both update the one row of meta, after other locks.
func TestActionsAndRegistrationsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	ctx, cancel := context.WithTimeout(t.Context(), soak.Pick(time.Second, 3*time.Second))
	defer cancel()
	ended := make(chan error)
	loops := []func(n int) error{
		func(n int) error {
			_, err := s.a.Register(t.Context(), s.session(s.a, "a"),
				[]storage.Definition{{Name: "job", Hash: string(rune('a' + n%20))},
					{Name: "kept", Hash: "h"}})
			return err
		},
		func(int) error {
			spec, err := s.b.PutSpec(t.Context(), operator,
				storage.Spec{Job: "added", Text: []byte(`{}`)})
			if err != nil {
				return err
			}
			if _, err := s.b.Register(t.Context(), s.session(s.b, "b"),
				[]storage.Definition{{Name: "added", Hash: "h",
					Source: storage.FromStore}}); err != nil {
				return err
			}
			return s.b.RemoveSpec(t.Context(), operator, "added", spec.Version)
		},
		func(int) error {
			if _, err := s.a.Pause(t.Context(), operator,
				storage.Target{Kind: storage.TargetAll}); err != nil {
				return err
			}
			_, err := s.a.Resume(t.Context(), operator, storage.Target{Kind: storage.TargetAll})
			return err
		},
	}
	for _, loop := range loops {
		go func() {
			var err error
			for n := 0; err == nil && (n == 0 || ctx.Err() == nil); n++ {
				err = loop(n)
			}
			ended <- err
		}()
	}
	for range loops {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// No replica would ever read these cancels, and they would accumulate.
func TestSweepDeletesCancelsOfEndedRuns(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	ends, goesOn := request(t, "ends", "orders"), request(t, "goes on", "sales")
	run := s.granted(s.a, session, ends)
	s.granted(s.a, session, goesOn)
	for _, r := range []storage.StartRequest{ends, goesOn} {
		if _, err := s.b.Cancel(t.Context(), operator, r.Run); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.a.Finish(t.Context(),
		[]storage.FinishRequest{{Run: run.ID, Token: run.Token,
			State: jobs.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := query[[16]byte](s, "SELECT run FROM holdfast.cancels"); left != goesOn.Run ||
		query[int](s, "SELECT count(*) FROM holdfast.cancels") != 1 {
		t.Errorf("left is the cancel of %x", left)
	}
}

// A claim is given back while a cancel of its run is being written, or the other way round. In both
// cases the run is cancelled and does not wait.
func TestCancelBesideAClaimGivenBack(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]struct{ application, table, event, condition string }{
		"the cancel comes first":    {"b", "holdfast.cancels", "INSERT", "true"},
		"the give-back comes first": {"a", "holdfast.runs", "UPDATE", "NEW.state = 'waiting'"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
			resume := s.pause(first.application, first.table, first.event, first.condition)
			finished, cancelled := make(chan bool, 1), make(chan error, 1)
			giveBack := func() {
				done, err := s.a.Finish(t.Context(), []storage.FinishRequest{{Run: run.ID,
					Token: run.Token, State: jobs.Waiting, Reason: reasons.NoWorker,
					GivenBack: true}})
				if err != nil {
					t.Errorf("finish: %v", err)
					done = []bool{false}
				}
				finished <- done[0]
			}
			cancel := func() {
				_, err := s.b.Cancel(t.Context(), operator, run.ID)
				cancelled <- err
			}
			if first.application == "b" {
				go cancel()
				awaitWaiting(s, "b", cancelled)
				go giveBack()
				awaitWaiting(s, "a", finished)
			} else {
				go giveBack()
				awaitWaiting(s, "a", finished)
				go cancel()
				awaitWaiting(s, "b", cancelled)
			}
			resume()
			if err := <-cancelled; err != nil {
				t.Error(err)
			}
			if got, want := <-finished, first.application == "a"; got != want {
				t.Errorf("given back: %v, want %v", got, want)
			}
			if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 ||
				s.state(run.ID) != "cancelled" {
				t.Errorf("%d waits, run is %s", n, s.state(run.ID))
			}
		})
	}
}
