package holdfasttest

import (
	"context"
	"errors"
	"strings"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// fireLimit is how long the methods of a Scheduler wait for a run, by the clock of the bubble. A
// run that takes longer is a mistake of the test, or waits for something that never happens.
const fireLimit = 24 * time.Hour

// The interval between two looks at a run grows from the shortest to the longest.
const (
	shortestLook = time.Millisecond
	longestLook  = time.Second
)

// Fire moves the clock to the next scheduled time of the job, and further until that firing has
// ended: it ran, or was skipped or missed. It returns the run, or the last recovery of a lost one.
// Other jobs fire too if their scheduled times pass meanwhile. Fire fails the test if the firing
// takes more than 24 hours of the clock.
//
// A job with OnlyTriggered has no scheduled time: use [Scheduler.Trigger].
func (s *Scheduler) Fire(job string) Run {
	s.t.Helper()
	at := s.advanceToNext(job)
	return s.await(job, at, func(r storage.Record) bool { return r.State.Final() })
}

// Start moves the clock to the next scheduled time of the job, and further until its handler runs.
// It returns the run, on which the test can call [Run.Wait]. If the handler returns at once, the
// run has already ended. Start fails the test if that takes more than 24 hours of the clock.
func (s *Scheduler) Start(job string) Run {
	s.t.Helper()
	at := s.advanceToNext(job)
	return s.await(job, at, func(r storage.Record) bool {
		return r.State.Final() || r.State == jobs.Running
	})
}

// Trigger triggers a job as the program does with Replica.Trigger, and moves the clock until the
// run has ended. It returns the run. A refused trigger fails the test, and so does a run that takes
// more than 24 hours of the clock.
func (s *Scheduler) Trigger(trigger holdfast.AnyTrigger) Run {
	s.t.Helper()
	answer, err := s.replica.Trigger(context.Background(), trigger)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.Run(answer.Run.ID).Wait()
}

// advanceToNext moves the clock to the next scheduled time of the job, and returns that time.
func (s *Scheduler) advanceToNext(job string) time.Time {
	s.t.Helper()
	scheduler := s.inner.Scheduler()
	table := scheduler.Table()
	if _, known := table.Job(job); !known {
		s.t.Fatalf("fire job %q: the jobs are %s", job, strings.Join(table.Names(), ", "))
	}
	times := scheduler.ScheduledTimes(job, time.Now(), 1)
	if len(times) == 0 {
		s.t.Fatalf("fire job %q: its schedule gives no time after %s; for a run by hand, use "+
			"Trigger", job, shown(time.Now()))
	}
	s.AdvanceTo(times[0])
	return times[0]
}

// await moves the clock until the last run of the firing satisfies done.
func (s *Scheduler) await(job string, at time.Time, done func(storage.Record) bool) Run {
	s.t.Helper()
	deadline := time.Now().Add(s.limit)
	for delay := shortestLook; ; delay = min(2*delay, longestLook) {
		synctest.Wait()
		view, err := s.store.Firing(context.Background(), job, at)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			s.t.Fatal(err)
		}
		if n := len(view.Runs); n > 0 && done(view.Runs[n-1]) {
			return s.Run(view.Runs[n-1].ID)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("job %q at %s: nothing became of it within %s: %s", job, shown(at),
				s.limit, s.explain(job, at))
		}
		time.Sleep(delay)
	}
}

// explain returns the outcome of a firing in a sentence, as scheduler explain does.
func (s *Scheduler) explain(job string, at time.Time) string {
	explanation, err := s.explainer.ExplainAt(context.Background(), job, at)
	if err != nil {
		return err.Error()
	}
	return explanation.Summary
}

// Run returns the run with that id as it is now. It fails the test if there is none.
func (s *Scheduler) Run(id uuid.UUID) Run {
	s.t.Helper()
	record, err := s.store.Run(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return Run{Record: record, s: s}
}
