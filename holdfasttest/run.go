package holdfasttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Run is a run as it was when the method returned it. It does not change when the run goes on.
type Run struct {
	storage.Record
	s *Scheduler
}

// Expect fails the test unless the run is in the state, and has one of the reasons if any are
// given. It returns the run.
func (r Run) Expect(want jobs.State, reasons ...jobs.Reason) Run {
	r.s.t.Helper()
	if got := r.outcome(); !got.is(want, reasons) {
		r.s.t.Errorf("%s: got %s, want %s%s", r.name(), got, wanted(want, reasons),
			quoted(r.Output))
	}
	return r
}

// Wait moves the clock until the run has ended, and returns it as it is then. It does not wait for
// the recovery of a lost run. It fails the test if that takes more than 24 hours of the clock.
func (r Run) Wait() Run {
	r.s.t.Helper()
	deadline := time.Now().Add(r.s.limit)
	for delay := shortestLook; ; delay = min(2*delay, longestLook) {
		synctest.Wait()
		now := r.s.Run(r.ID)
		if now.State.Final() {
			return now
		}
		if time.Now().After(deadline) {
			r.s.t.Fatalf("%s: it has not ended within %s: %s", r.name(), r.s.limit, now.outcome())
		}
		time.Sleep(delay)
	}
}

// DecodeResult decodes the result of the run into the value that target points to. It fails the
// test if there is none.
func (r Run) DecodeResult(target any) Run {
	r.s.t.Helper()
	if r.Result == nil {
		r.s.t.Fatalf("%s: got no result, want one", r.name())
	}
	if err := json.Unmarshal(r.Result, target); err != nil {
		r.s.t.Fatalf("%s: decode result %s: %v", r.name(), r.Result, err)
	}
	return r
}

// outcome returns the state of the run, with its reason in words. The history of a waiting run has
// its blocker.
func (r Run) outcome() outcome {
	o := outcome{r.State, r.Reason, r.Detail, r.Error}
	if r.State == jobs.Waiting {
		o.detail = r.BlockerText()
	}
	return o
}

// name names the run in messages.
func (r Run) name() string {
	text := fmt.Sprintf("run of job %q at %s", r.Job, shown(r.ScheduledAt))
	if r.Recovery > 0 {
		text += fmt.Sprintf(" (recovery %d)", r.Recovery)
	}
	return text
}

// Runs returns all runs of a job, also skipped and missed ones, the earliest scheduled time first.
// Their output and result are empty: see [Scheduler.Run].
func (s *Scheduler) Runs(job string) []Run {
	var runs []Run
	for _, record := range s.store.Everything() {
		if record.Job == job {
			runs = append(runs, Run{Record: record, s: s})
		}
	}
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), a.CreatedAt.Compare(b.CreatedAt),
			cmp.Compare(a.Recovery, b.Recovery), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return runs
}

// ExpectRuns fails the test unless the runs of the job have these states, in the order of
// [Scheduler.Runs].
func (s *Scheduler) ExpectRuns(job string, want ...jobs.State) {
	s.t.Helper()
	runs := s.Runs(job)
	if slices.EqualFunc(runs, want, func(r Run, state jobs.State) bool {
		return r.State == state
	}) {
		return
	}
	var found strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&found, "\n\t%s: %s", shown(r.ScheduledAt), r.outcome())
	}
	s.t.Errorf("runs of job %q: got %s, want %s%s", job, stateNames(runStates(runs)),
		stateNames(want), found.String())
}

func runStates(runs []Run) []jobs.State {
	states := make([]jobs.State, len(runs))
	for i, r := range runs {
		states[i] = r.State
	}
	return states
}

// stateNames returns "2 (succeeded, failed)", or "none".
func stateNames(states []jobs.State) string {
	if len(states) == 0 {
		return "none"
	}
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}
