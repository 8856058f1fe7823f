package charts

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The dimensions of a picture of phases, in pixels.
const (
	phaseAxis = 30
	phaseRow  = 44
	phaseBar  = 26

	// MaxPhaseRows is the most attempts of a picture: the last ones.
	MaxPhaseRows   = 12
	minLabel       = 12  // percent: a narrower bar has no label
	retryWaitLabel = 25  // percent: room for the label of a retry wait
	narrowest      = 640 // pixels: the narrowest picture
)

// Phases is the picture of when each attempt of a run waited, ran, and waited for the next one.
type Phases struct {
	Rows    []PhaseRow
	Ticks   []Tick
	Height  int
	Now     *Percent // nil if the run has ended
	Words   string
	Earlier int // attempts that are not drawn
}

// PhaseRow is one attempt.
type PhaseRow struct {
	Attempt   storage.RunAttempt
	Y         int // its upper edge
	Waited    *PhaseBar
	Ran       *PhaseBar
	RetryWait *PhaseBar
	Label     PhaseLabel // of the retry wait
}

// PhaseLabel is where the label of a retry wait is drawn.
type PhaseLabel struct {
	X     Percent // its left end, or its right end
	Right bool    // X is its right end
	Above bool    // it is above the line of the retry wait
	OnBar bool    // it is on the bar of the attempt
}

// PhaseBar is a time in which an attempt did one thing.
type PhaseBar struct {
	X, W  Percent
	Y     int
	Class string
	Label string // "" if there is no room for it
	Title string
}

// End returns the right end of the bar.
func (b PhaseBar) End() Percent { return b.X + b.W }

// BarHeight returns the height of a bar in pixels.
func (Phases) BarHeight() int { return phaseBar }

// AxisY returns the lower end of the axis in pixels.
func (Phases) AxisY() int { return phaseAxis }

// LabelWidth returns the width of the plate behind a label in pixels.
func (Phases) LabelWidth(label string) int { return 8 + 7*len(label) }

// label returns the first place with room for the label of the retry wait: after it, above its
// line, before the attempt, and on the bar of the attempt.
func (r PhaseRow) label() PhaseLabel {
	before := r.Ran.X // what is free before the attempt
	if r.Waited != nil {
		label := Percent(Phases{}.LabelWidth(r.Waited.Label)) / narrowest * 100
		before = r.Waited.W - max(minLabel, label) // it may have a label of its own
	}
	switch {
	case 100-r.RetryWait.End() >= retryWaitLabel:
		return PhaseLabel{X: r.RetryWait.End()}
	case r.RetryWait.W >= retryWaitLabel:
		return PhaseLabel{X: r.RetryWait.End(), Right: true, Above: true}
	case before >= retryWaitLabel:
		return PhaseLabel{X: r.Ran.X, Right: true}
	}
	return PhaseLabel{X: r.RetryWait.X, Right: true, OnBar: true}
}

// NewPhases draws the attempts of a run, which include the last one. It returns nil if the run has
// not started.
func NewPhases(run storage.Record, attempts []storage.RunAttempt, now time.Time) *Phases {
	if run.StartedAt == nil || len(attempts) == 0 {
		return nil
	}
	p := &Phases{Earlier: max(0, len(attempts)-MaxPhaseRows)}
	attempts = attempts[p.Earlier:]
	from, until := beginOf(run, attempts[0]), now
	if run.FinishedAt != nil {
		until = *run.FinishedAt
	}
	if !until.After(from) {
		until = from.Add(time.Millisecond)
	}
	d := phaseDrawer{from: from, until: until}
	for i, a := range attempts {
		row := PhaseRow{Attempt: a, Y: phaseAxis + i*phaseRow}
		row.Waited = d.waited(run, a, row.Y)
		row.Ran = d.ran(a, row.Y)
		if a.FinishedAt != nil && row.Ran != nil && i+1 < len(attempts) {
			row.RetryWait = d.retryWait(run, *a.FinishedAt, attempts[i+1], row.Y)
			row.Label = row.label()
		}
		p.Rows = append(p.Rows, row)
	}
	p.Height = phaseAxis + len(attempts)*phaseRow
	p.Ticks = ticks(from, until)
	if !run.State.Final() {
		end := Percent(100)
		p.Now = &end
	}
	p.Words = fmt.Sprintf("Attempts of the run from %s to %s", words.UTC(from), words.UTC(until))
	return p
}

type phaseDrawer struct{ from, until time.Time }

func (d phaseDrawer) bar(begin, end time.Time, y int) *PhaseBar {
	if end.Before(begin) {
		end = begin
	}
	length := float64(d.until.Sub(d.from))
	x := func(at time.Time) Percent {
		return Percent(min(max(float64(at.Sub(d.from))/length, 0), 1) * 100)
	}
	b := &PhaseBar{X: x(begin), Y: y + (phaseRow-phaseBar)/2}
	b.W = max(x(end)-b.X, minBarWidth)
	b.X = min(b.X, 100-b.W)
	return b
}

// label sets the label if there is room for it.
func (b *PhaseBar) label(text string) {
	if b.W >= minLabel {
		b.Label = text
	}
}

// beginOf returns when the run began to wait for its first attempt, or for its lock before another
// attempt. The replica counts a wait from before the run has a row.
func beginOf(run storage.Record, first storage.RunAttempt) time.Time {
	begin := run.CreatedAt
	if first.Attempt > 1 && first.StartedAt != nil {
		begin = *first.StartedAt
	}
	if first.Waited != nil && first.Waited.Since.Before(begin) {
		begin = first.Waited.Since
	}
	return begin
}

// waited returns the bar of the wait before an attempt. Before the first attempt, the wait begins
// with the run. Before another one, it begins when the run began to wait for a lock. It returns nil
// if the wait is too short to be seen.
func (d phaseDrawer) waited(run storage.Record, a storage.RunAttempt, y int) *PhaseBar {
	if a.StartedAt == nil || a.Attempt > 1 && a.Waited == nil {
		return nil
	}
	since, started := run.CreatedAt, *a.StartedAt
	if a.Waited != nil && (a.Attempt > 1 || a.Waited.Since.Before(since)) {
		since = a.Waited.Since
	}
	b := d.bar(since, started, y)
	if b.W <= minBarWidth {
		return nil
	}
	took, whatFor := words.Took(started.Sub(since)), ""
	b.label("waited " + took)
	if w := a.Waited; w != nil && w.Blocker.Resource != "" {
		whatFor = " for " + w.Blocker.Resource
		if behind := words.Behind(w.Blocker); behind != "" {
			whatFor += behind + ","
		}
		if b.W >= retryWaitLabel {
			b.Label = words.Cut(w.Blocker.Resource, 40) + " " + took
		}
	}
	b.Title = fmt.Sprintf("Waited%s from %s to %s", whatFor, words.UTC(since), words.UTC(started))
	return b
}

// ran returns the attempt itself, or nil if it has not started.
func (d phaseDrawer) ran(a storage.RunAttempt, y int) *PhaseBar {
	if a.StartedAt == nil {
		return nil
	}
	end, verb := d.until, "runs"
	if a.FinishedAt != nil {
		end, verb = *a.FinishedAt, "ran"
	}
	b := d.bar(*a.StartedAt, end, y)
	took := words.Took(end.Sub(*a.StartedAt))
	b.Class = string(a.State)
	if a.State == jobs.Waiting { // its end is not recorded yet
		b.Class = string(jobs.Running)
	}
	b.Title = fmt.Sprintf("Attempt %d %s since %s", a.Attempt, words.State(a.State),
		words.UTC(*a.StartedAt))
	if a.FinishedAt != nil {
		b.Title = fmt.Sprintf("Attempt %d ran from %s to %s: %s", a.Attempt,
			words.UTC(*a.StartedAt), words.UTC(end), words.State(a.State))
	}
	b.label(verb + " " + took)
	return b
}

// retryWait returns the time between an attempt and the next one, or up to the time when the next
// one waited for a lock.
func (d phaseDrawer) retryWait(run storage.Record, since time.Time, next storage.RunAttempt,
	y int) *PhaseBar {
	end := d.until
	switch {
	case next.Waited != nil && next.Waited.Since.After(since):
		end = next.Waited.Since
	case next.StartedAt != nil:
		end = *next.StartedAt
	}
	b := d.bar(since, end, y)
	b.Y += phaseBar / 2
	b.Label = "retry wait " + words.Took(end.Sub(since))
	if next.StartedAt == nil && run.BlockedBy != nil {
		b.Label += ", blocked by " + words.Cut(run.BlockedBy.Resource, 40)
	}
	return b
}

// PhaseKey is an entry of the legend.
type PhaseKey struct {
	Class string // of the rectangle; "wait" is hatched, and "retry-wait" is a line
	Text  string
}

// Legend explains the marks that the picture has, in the order of its phases.
func (p *Phases) Legend() (keys []PhaseKey) {
	waits, forLocks, retries := false, true, false
	ran := make(map[string]bool)
	for _, row := range p.Rows {
		if row.Waited != nil {
			waits, forLocks = true, forLocks && row.Attempt.Waited != nil
		}
		if row.Ran != nil {
			ran[row.Ran.Fill()] = true
		}
		retries = retries || row.RetryWait != nil
	}
	add := func(drawn bool, class, text string) {
		if drawn {
			keys = append(keys, PhaseKey{class, text})
		}
	}
	add(waits && forLocks, "wait", "waited for a lock")
	add(waits && !forLocks, "wait", "waited before an attempt")
	add(ran["ended"], "succeeded", "ran and succeeded")
	add(ran["failed"], "failed", "ran and failed")
	add(ran["cancelled"], "cancelled", "ran until it was cancelled")
	add(ran[""], "running", "running")
	add(retries, "retry-wait", "retry wait")
	return keys
}

// Fill returns the class that colours the bar of an attempt.
func (b PhaseBar) Fill() string {
	switch jobs.State(b.Class) {
	case jobs.Succeeded:
		return "ended"
	case jobs.Failed, jobs.TimedOut, jobs.Lost:
		return "failed"
	case jobs.Cancelled, jobs.Skipped, jobs.Missed:
		return "cancelled"
	}
	return ""
}
