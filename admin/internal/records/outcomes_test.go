package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outcomeStore has the runs of jobs, the youngest first.
type outcomeStore struct {
	storage.Listings // the other methods are not called
	runs             map[string][]storage.Outcome
	read             int // runs that were returned
	err              error
}

func (s *outcomeStore) Outcomes(_ context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	found := make(map[string][]storage.Outcome)
	for _, o := range of {
		for _, run := range s.runs[o.Job] {
			if run.CreatedAt.After(o.After) && len(found[o.Job]) < n {
				found[o.Job] = append(found[o.Job], run)
				s.read++
			}
		}
	}
	return found, s.err
}

func (s *outcomeStore) add(job string, at time.Time, state jobs.State) {
	s.runs[job] = slices.Insert(s.runs[job], 0,
		storage.Outcome{Run: uuid.New(), CreatedAt: at, State: state})
}

func TestEndedRunsAreReadOnce(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &outcomeStore{runs: make(map[string][]storage.Outcome)}
	for i := range 30 {
		s.add("a", began.Add(time.Duration(i)*time.Minute), jobs.Succeeded)
	}
	s.add("b", began, jobs.Failed)
	o := NewOutcomes(s)
	now := began.Add(time.Hour)
	names := []string{"a", "b", "c", "none"}
	// Each step changes the runs. The result must be that of the store, with the reads given.
	for _, step := range []struct {
		name   string
		change func()
		n      int
		reads  int
	}{
		{"at first", func() {}, 3, 4},
		{"again", func() {}, 3, 0},
		{"fewer", func() {}, 2, 0},
		{"more", func() {}, 20, 21},
		{"fewer than were read", func() {}, 3, 0},
		{"a new run", func() { s.add("a", now, jobs.Running) }, 20, 1},
		{"it runs", func() { now = now.Add(5 * time.Minute) }, 20, 1},
		{"it has ended", func() { s.runs["a"][0].State = jobs.Failed }, 20, 1},
		{"it is known", func() {}, 20, 0},
		{"one has ended after one that runs", func() {
			s.add("b", now, jobs.Running)
			s.add("b", now.Add(time.Second), jobs.Succeeded)
			now = now.Add(time.Minute + time.Second)
		}, 20, 2},
		{"both are read again", func() {}, 20, 2},
		{"one of two that were created together has ended", func() {
			s.add("c", now.Add(-2*time.Minute), jobs.Succeeded)
			s.add("c", now.Add(-2*time.Minute), jobs.Running)
		}, 20, 4},
		{"they are read again", func() {}, 20, 4},
		{"the other one has ended", func() { s.runs["c"][0].State = jobs.Failed }, 20, 4},
		{"a run that ended a moment ago", func() {
			s.runs["b"][1].State = jobs.Succeeded
			s.add("b", now.Add(-time.Second), jobs.Succeeded)
		}, 20, 3},
		{"one is too young to be kept", func() {}, 20, 1},
		{"as many new ones as are asked for", func() {
			now = now.Add(2 * time.Minute)
			for i := range 4 {
				s.add("a", now.Add(time.Duration(i)*time.Millisecond), jobs.Failed)
			}
		}, 4, 5},
		{"the new ones are too young to be kept", func() {}, 20, 4},
		{"they are old", func() { now = now.Add(settledAge + time.Second) }, 20, 4},
		{"they are known", func() {}, 20, 0},
		{"after a long time", func() { now = now.Add(settledLifetime) }, 20, 26},
		{"the clock was set back", func() { now = now.Add(-time.Second) }, 20, 26},
	} {
		step.change()
		want, err := s.Outcomes(t.Context(), storage.AllOutcomesOf(names), step.n)
		if err != nil {
			t.Fatal(err)
		}
		s.read = 0
		found, err := o.Last(t.Context(), now, names, step.n)
		if err != nil {
			t.Fatal(err)
		}
		if s.read != step.reads {
			t.Errorf("%s: read %d runs, want %d", step.name, s.read, step.reads)
		}
		if len(found) != len(want) {
			t.Errorf("%s: %d jobs, want %d", step.name, len(found), len(want))
		}
		for job := range want {
			if !slices.EqualFunc(found[job], want[job], func(a, b storage.Outcome) bool {
				return a.Run == b.Run && a.State == b.State
			}) {
				t.Errorf("%s: of %s\n%+v, want\n%+v", step.name, job, found[job], want[job])
			}
		}
	}
}

func TestEndedRunsOfFewJobsAreKept(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &outcomeStore{runs: make(map[string][]storage.Outcome)}
	o := NewOutcomes(s)
	for i := range 3*maxSettledJobs + 7 {
		name := fmt.Sprint("job-", i)
		s.add(name, began, jobs.Succeeded)
		if _, err := o.Last(t.Context(), began.Add(time.Hour), []string{name}, 20); err != nil {
			t.Fatal(err)
		}
		if len(o.settled) > maxSettledJobs {
			t.Fatalf("the runs of %d jobs are kept", len(o.settled))
		}
	}
	if len(o.settled) == 0 {
		t.Error("no runs are kept")
	}
}

func TestOutcomesThatCannotBeRead(t *testing.T) {
	s := &outcomeStore{err: errors.New("no connection")}
	found, err := NewOutcomes(s).Last(t.Context(), time.Now(), []string{"a"}, 20)
	if !errors.Is(err, s.err) || found != nil {
		t.Errorf("%v, %v", found, err)
	}
}
