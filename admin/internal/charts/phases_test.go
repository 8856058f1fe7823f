package charts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

func TestPhases(t *testing.T) {
	at := func(seconds int) *time.Time {
		at := time.Date(2026, 3, 14, 2, 30, seconds, 0, time.UTC)
		return &at
	}
	attempt := func(n int, state jobs.State, from, until *time.Time) storage.RunAttempt {
		return storage.RunAttempt{Attempt: n, State: state, StartedAt: from, FinishedAt: until}
	}
	run := storage.Record{CreatedAt: *at(0), StartedAt: at(10), State: jobs.Succeeded,
		FinishedAt: at(100)}
	active, waits := run, run
	active.State, active.FinishedAt = jobs.Running, nil
	waits.State, waits.FinishedAt = jobs.Waiting, nil
	blocked := waits
	blocked.BlockedBy = &jobs.Blocker{Resource: "public/orders"}
	first, second := attempt(1, jobs.Failed, at(10), at(30)), attempt(2, jobs.TimedOut, at(40),
		at(60))
	for name, c := range map[string]struct {
		run      storage.Record
		attempts []storage.RunAttempt
		want     string
	}{
		"ended": {run, []storage.RunAttempt{first, second, attempt(3, jobs.Succeeded, at(90), at(100))},
			"1: waited 0%+10%, failed 10%+20%, 30%+10% retry wait 10 s; " +
				"2: timed_out 40%+20%, 60%+30% retry wait 30 s; 3: succeeded 90%+10%"},
		"running": {active, []storage.RunAttempt{first, attempt(2, jobs.Running, at(40), nil)},
			"1: waited 0%+10%, failed 10%+20%, 30%+10% retry wait 10 s; 2: running 40%+60%; now"},
		"waited again": {run, []storage.RunAttempt{first,
			waitedFor(second, at(35), "public/orders"),
			waitedFor(attempt(3, jobs.Succeeded, at(90), at(100)), at(65), "public/stock")},
			"1: waited 0%+10%, failed 10%+20%, 30%+5% retry wait 5.0 s; " +
				"2: waited 35%+5% for public/orders, timed_out 40%+20%, 60%+5% retry wait 5.0 s; " +
				"3: waited 65%+25% for public/stock, succeeded 90%+10%"},
		"blocked": {blocked, []storage.RunAttempt{first, attempt(2, jobs.Waiting, nil, nil)},
			"1: waited 0%+10%, failed 10%+20%, 30%+70% retry wait 1 min 10 s, blocked by " +
				"public/orders; 2: ; now"},
		"waiting": {waits, []storage.RunAttempt{first, attempt(2, jobs.Waiting, nil, nil)},
			"1: waited 0%+10%, failed 10%+20%, 30%+70% retry wait 1 min 10 s; 2: ; now"},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPhases(c.run, c.attempts, *at(100))
			var rows []string
			for _, r := range p.Rows {
				var bars []string
				if r.Waited != nil {
					text := fmt.Sprintf("waited %s+%s", r.Waited.X, r.Waited.W)
					if _, name, named := strings.Cut(r.Waited.Title, " for "); named {
						name, _, _ = strings.Cut(name, ",")
						text += " for " + name
					}
					bars = append(bars, text)
				}
				if r.Ran != nil {
					bars = append(bars, fmt.Sprintf("%s %s+%s", r.Ran.Class, r.Ran.X, r.Ran.W))
				}
				if r.RetryWait != nil {
					bars = append(bars, fmt.Sprintf("%s+%s %s", r.RetryWait.X, r.RetryWait.W,
						r.RetryWait.Label))
				}
				rows = append(rows, fmt.Sprintf("%d: %s", r.Attempt.Attempt,
					strings.Join(bars, ", ")))
			}
			if p.Now != nil {
				rows = append(rows, "now")
			}
			if got := strings.Join(rows, "; "); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// waitedFor returns the attempt with a wait for a resource since then.
func waitedFor(a storage.RunAttempt, since *time.Time, resource string) storage.RunAttempt {
	a.Waited = &storage.Wait{Since: *since, Blocker: jobs.Blocker{Resource: resource,
		Holder: locking.Owner{Job: "prune"}}}
	return a
}

// TestLabelOfARetryWait checks that the label covers neither the attempt nor the next one.
func TestLabelOfARetryWait(t *testing.T) {
	for name, c := range map[string]struct {
		waited, ran, retryWait Percent // widths
		first                  bool    // attempt, which may have waited
		want                   PhaseLabel
	}{
		"after it":           {10, 20, 10, true, PhaseLabel{X: 40}},
		"above its line":     {10, 30, 45, true, PhaseLabel{X: 85, Right: true, Above: true}},
		"before the attempt": {60, 20, 15, false, PhaseLabel{X: 60, Right: true}},
		"on the wait before": {60, 20, 15, true, PhaseLabel{X: 60, Right: true}},
		"on the attempt":     {10, 70, 10, false, PhaseLabel{X: 80, Right: true, OnBar: true}},
		"after a short wait": {30, 45, 20, true, PhaseLabel{X: 75, Right: true, OnBar: true}},
	} {
		t.Run(name, func(t *testing.T) {
			row := PhaseRow{Ran: &PhaseBar{X: c.waited, W: c.ran},
				RetryWait: &PhaseBar{X: c.waited + c.ran, W: c.retryWait}}
			if c.first {
				row.Waited = &PhaseBar{W: c.waited}
			}
			if got := row.label(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestLegendOfPhases checks that the legend explains what the picture has, and nothing else.
func TestLegendOfPhases(t *testing.T) {
	start := time.Date(2026, 3, 14, 2, 0, 0, 0, time.UTC)
	at := func(seconds int) *time.Time {
		return new(start.Add(time.Duration(seconds) * time.Second))
	}
	run := storage.Record{CreatedAt: start, StartedAt: at(0), FinishedAt: at(100),
		State: jobs.Succeeded}
	attempt := func(n int, state jobs.State, from, until int) storage.RunAttempt {
		return storage.RunAttempt{Attempt: n, State: state, StartedAt: at(from),
			FinishedAt: at(until)}
	}
	running := attempt(2, jobs.Running, 50, 100)
	running.FinishedAt = nil
	for name, c := range map[string]struct {
		attempts []storage.RunAttempt
		want     string
	}{
		"succeeded at once": {[]storage.RunAttempt{attempt(1, jobs.Succeeded, 0, 100)},
			"ran and succeeded"},
		"waited": {[]storage.RunAttempt{attempt(1, jobs.Succeeded, 20, 100)},
			"waited before an attempt, ran and succeeded"},
		"waited for a lock": {[]storage.RunAttempt{
			waitedFor(attempt(1, jobs.Cancelled, 20, 100), at(0), "public/orders")},
			"waited for a lock, ran until it was cancelled"},
		"retried": {[]storage.RunAttempt{attempt(1, jobs.TimedOut, 0, 40), running},
			"ran and failed, running, retry wait"},
	} {
		var got []string
		for _, key := range NewPhases(run, c.attempts, *at(100)).Legend() {
			got = append(got, key.Text)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: the legend has %s, want %s", name, got, c.want)
		}
	}
}

func TestPhasesOfManyAttempts(t *testing.T) {
	began := time.Date(2026, 3, 14, 2, 30, 0, 0, time.UTC)
	run := storage.Record{CreatedAt: began, StartedAt: &began, State: jobs.Running}
	var attempts []storage.RunAttempt
	for n := range 40 {
		started := began.Add(time.Duration(n) * time.Minute)
		attempts = append(attempts, storage.RunAttempt{Attempt: n + 1, State: jobs.Running,
			StartedAt: &started})
	}
	p := NewPhases(run, attempts, began.Add(time.Hour))
	if len(p.Rows) != MaxPhaseRows || p.Earlier != 28 || p.Rows[0].Attempt.Attempt != 29 ||
		p.Rows[0].Ran.X != 0 {
		t.Errorf("got %d rows from attempt %d at %s, %d before", len(p.Rows),
			p.Rows[0].Attempt.Attempt, p.Rows[0].Ran.X, p.Earlier)
	}
	if got := NewPhases(storage.Record{CreatedAt: began}, nil, began); got != nil {
		t.Errorf("got %+v of a run that has not started", got)
	}
}

// TestWaitNamesItsLock checks that the bar of a wait names what the attempt waited for if it has
// room, and that its title names the lock and its holder.
func TestWaitNamesItsLock(t *testing.T) {
	start := time.Date(2026, 3, 14, 2, 0, 0, 0, time.UTC)
	at := func(seconds int) *time.Time {
		return new(start.Add(time.Duration(seconds) * time.Second))
	}
	orders := jobs.Blocker{Resource: "public/orders"}
	held, queued := orders, orders
	held.Holder.Job, queued.Holder.Job, queued.Waiting = "prune", "report", true
	for name, c := range map[string]struct {
		attempt, since, end int // seconds
		blocker             *jobs.Blocker
		label, title        string
	}{
		"long": {1, 5, 120, &held, "public/orders 1 min",
			"Waited for public/orders, held by prune, from"},
		"short": {1, 5, 400, &queued, "waited 1 min",
			"Waited for public/orders, queued behind report, from"},
		"of a program": {1, 5, 120, &orders, "public/orders 1 min",
			"Waited for public/orders from"},
		"of another kind": {1, 5, 120, nil, "waited 1 min", "Waited from"},
		"before it was recorded": {1, -5, 120, &held, "public/orders 1 min 5 s",
			"Waited for public/orders, held by prune, from 2026-03-14 01:59:55 UTC"},
		"of a retry": {2, 20, 100, &held, "public/orders 40 s",
			"Waited for public/orders, held by prune, from 2026-03-14 02:00:20 UTC"},
	} {
		run := storage.Record{CreatedAt: start, StartedAt: at(60), State: jobs.Succeeded,
			FinishedAt: at(c.end)}
		a := storage.RunAttempt{Attempt: c.attempt, State: jobs.Succeeded, StartedAt: at(60),
			FinishedAt: at(c.end)}
		if c.blocker != nil {
			a.Waited = &storage.Wait{Since: *at(c.since), Blocker: *c.blocker}
		}
		bar := NewPhases(run, []storage.RunAttempt{a}, *at(c.end)).Rows[0].Waited
		if bar.Label != c.label || !strings.HasPrefix(bar.Title, c.title) {
			t.Errorf("%s: got %q with the title %q, want %q with %q", name, bar.Label, bar.Title,
				c.label, c.title)
		}
	}
}
