package locks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	conflictsSpan = 24 * time.Hour
	// maxUpcomingFirings bounds the firings that are examined. If more come within the span, the
	// simulation ends earlier.
	maxUpcomingFirings = 50_000
	firingsBatch       = 16 // of one job, per query of the cron table
	shownConflicts     = 60
	maxConflicts       = 1000
)

// UpcomingConflicts lists the firings that are expected to conflict with other runs.
type UpcomingConflicts struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"` // end of the simulated time
	// jobs that share resources with others
	Jobs           int `json:"jobs"`
	ScheduledTimes int `json:"scheduled_times"` // scheduled times of these jobs
	// Conflicts by job and holder. Likely ones are first, then the most frequent.
	Conflicts []Conflict `json:"conflicts"`
	Cut       []string   `json:"cut"` // what is left out or estimated, in words

	Resource string `json:"-"`
}

// Conflict is a job that is expected to wait for another.
type Conflict struct {
	Job      string `json:"job"`    // job that waits
	Holder   string `json:"holder"` // job that holds the resource
	Resource string `json:"resource"`
	// Likely counts the firings that wait if every run takes its job's median duration. Possible
	// counts those that wait if every run takes the 95th percentile.
	Likely        int       `json:"likely"`
	Possible      int       `json:"possible"`
	Skips         int       `json:"skips"`          // of the likely, number that would be skipped
	PossibleSkips int       `json:"possible_skips"` // of the possible, number that would be skipped
	First         time.Time `json:"first"`          // scheduled time
	Wait          float64   `json:"longest_wait_seconds"`

	wait time.Duration
}

// Longest returns the longest expected wait.
func (c Conflict) Longest() time.Duration { return c.wait }

// Outcome returns the expected result of the firings in words.
func (c Conflict) Outcome() string {
	switch {
	case c.Likely > 0 && c.Skips == c.Likely:
		return "skipped"
	case c.Skips > 0:
		return words.Count(c.Skips) + " of " + words.Count(c.Likely) + " skipped"
	case c.PossibleSkips > 0:
		return "waits; may be skipped"
	}
	return "waits"
}

// UpcomingConflicts simulates the cron table of this replica.
func (r *Reader) UpcomingConflicts(ctx context.Context, now time.Time,
	about *locking.Resource) (UpcomingConflicts, error) {
	if about == nil {
		return r.conflicts.Get(ctx, now)
	}
	return r.findConflicts(ctx, now, about)
}

func (r *Reader) findConflicts(ctx context.Context, now time.Time,
	about *locking.Resource) (UpcomingConflicts, error) {
	f := UpcomingConflicts{From: now, Until: now.Add(conflictsSpan), Conflicts: []Conflict{},
		Cut: []string{}}
	index, err := r.requests.Get(ctx, now)
	if err != nil {
		return f, fmt.Errorf("query locked resources: %w", err)
	}
	if r.ScheduledTimes == nil {
		f.Cut = append(f.Cut, "This replica fires no jobs, so it knows no scheduled times")
		return f, nil
	}
	paused, err := r.paused(ctx)
	if err != nil {
		return f, err
	}
	contenders := contendersOf(index.requests, about)
	f.Jobs = len(contenders)
	if n := paused.mark(contenders); n > 0 {
		f.Cut = append(f.Cut, words.PlainFigure(n, "job that shares resources is paused, so its "+
			"scheduled times do not count", "jobs that share resources are paused, so their "+
			"scheduled times do not count"))
		contenders = slices.DeleteFunc(contenders,
			func(one *contender) bool { return one.pause != nil })
	}
	r.limitWaits(contenders, conflictsSpan)
	scheduledTimes := r.upcomingFirings(&f, contenders)
	if f.ScheduledTimes = len(scheduledTimes); ctx.Err() != nil {
		return f, ctx.Err()
	}
	const allBatches = 1 << 30 // as many as there is time for
	if err := r.loadDurations(ctx, &f, contenders, scheduledTimes, allBatches); err != nil {
		return f, err
	}
	tally := newSimulation(contenders)
	tally.simulate(scheduledTimes, func(r *contender) time.Duration { return r.typical.Median },
		(*Conflict).likely)
	tally.simulate(scheduledTimes, func(r *contender) time.Duration { return r.typical.Long },
		(*Conflict).possible)
	f.Conflicts = tally.sorted(about)
	if len(f.Conflicts) > maxConflicts {
		f.Cut = append(f.Cut, fmt.Sprintf("Only %d of %d conflicts are listed", maxConflicts,
			len(f.Conflicts)))
		f.Conflicts = f.Conflicts[:maxConflicts]
	}
	return f, nil
}

// limitWaits sets how long the firings of each job wait, at most span.
func (r *Reader) limitWaits(contenders []*contender, span time.Duration) {
	for _, contender := range contenders {
		contender.waitLimit = span
		if r.LongestWait != nil {
			contender.waitLimit, contender.waitLimited = r.LongestWait(contender.job, span)
		}
	}
}

// Summary counts the expected conflicts in words.
func (f *UpcomingConflicts) Summary() string {
	likely, skips, possible := 0, 0, 0
	for _, c := range f.Conflicts {
		likely, skips, possible = likely+c.Likely, skips+c.Skips, possible+c.Possible
	}
	reach := "In the next 24 h"
	if f.Truncated() {
		reach = "In the next " + words.Span(f.Until.Sub(f.From))
	}
	switch {
	case f.Jobs == 0:
		return "No two jobs of the cron table share a resource, so there are no conflicts."
	case likely+possible == 0:
		return fmt.Sprintf("%s, no conflicts are expected among %s of %s that share resources.",
			reach,
			words.Figure(f.ScheduledTimes, "scheduled time", "scheduled times"),
			words.Figure(f.Jobs, "job", "jobs"))
	case likely == 0:
		return fmt.Sprintf(
			"%s, no conflicts are likely; %s are possible if runs take long.", reach,
			words.Count(possible))
	}
	text := fmt.Sprintf("%s, %s", reach,
		words.Verb(likely, "one firing is likely to wait for another run",
			words.Count(likely)+" firings are likely to wait for another run"))
	if skips > 0 {
		text += fmt.Sprintf(", and %s",
			words.Verb(skips, "one would be skipped", words.Count(skips)+" would be skipped"))
	}
	if possible > likely {
		text += "; " + words.Count(possible) + " in total if runs take long"
	}
	return text + "."
}

// ConflictsShown returns the conflicts that the page lists.
func (f *UpcomingConflicts) ConflictsShown() []Conflict {
	return f.Conflicts[:min(len(f.Conflicts), shownConflicts)]
}

// ConflictsMore returns the number of conflicts that the page does not list.
func (f *UpcomingConflicts) ConflictsMore() int {
	return len(f.Conflicts) - len(f.ConflictsShown())
}

// Truncated reports whether the simulation ended before the full span.
func (f *UpcomingConflicts) Truncated() bool { return f.Until.Sub(f.From) < conflictsSpan }

func (c *Conflict) likely(scheduledAt time.Time, wait time.Duration, skipped bool) {
	c.Likely++
	if skipped {
		c.Skips++
	}
	c.meet(scheduledAt, wait)
}

func (c *Conflict) possible(scheduledAt time.Time, wait time.Duration, skipped bool) {
	c.Possible++
	if skipped {
		c.PossibleSkips++
	}
	c.meet(scheduledAt, wait)
}

func (c *Conflict) meet(scheduledAt time.Time, wait time.Duration) {
	if c.First.IsZero() || scheduledAt.Before(c.First) {
		c.First = scheduledAt
	}
	c.wait = max(c.wait, wait)
	c.Wait = c.wait.Seconds()
}

func byLikelihood(a, b Conflict) int {
	yes := func(c Conflict) int { return min(c.Likely, 1) }
	return cmp.Or(cmp.Compare(yes(b), yes(a)), cmp.Compare(b.Skips, a.Skips),
		cmp.Compare(b.Likely, a.Likely), cmp.Compare(b.Possible, a.Possible),
		cmp.Compare(a.Job, b.Job), cmp.Compare(a.Holder, b.Holder),
		cmp.Compare(a.Resource, b.Resource))
}
