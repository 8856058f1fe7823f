package locks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	maxAgendaJobs = 20_000
	// maxAgendaTimes is the number of firings of one job that are listed. A job with more of them
	// is one bar.
	maxAgendaTimes  = 24
	agendaIntervals = 96
	agendaPage      = 40 // jobs
	agendaSoonest   = 6  // jobs in the list above the chart
	// agendaBatches bounds the queries of one request for durations. The next request knows more.
	agendaBatches = 2
)

// Agenda is the firings of the next hours by job, with expected waits.
type Agenda struct {
	From           time.Time `json:"from"`
	Until          time.Time `json:"until"` // end of the computed time
	Jobs           int       `json:"jobs"`  // with firings in this time; without paused jobs
	PausedJobs     int       `json:"paused_jobs"`
	ScheduledTimes int       `json:"scheduled_times"` // without those of paused jobs
	// Waits counts the firings that are expected to wait for another job, or to be skipped because
	// of it.
	Waits int `json:"waits"`
	Skips int `json:"skips"` // of them, firings that are expected to be skipped
	// Intervals are equal parts of the time, the soonest first.
	Intervals []AgendaInterval `json:"intervals"`
	Hours     []AgendaHour     `json:"hours"` // the soonest first
	// Entries are sorted by band, then by first firing.
	Entries []AgendaJob `json:"entries"`
	Cut     []string    `json:"cut"` // what is left out or estimated, in words

	Chart  *charts.Agenda `json:"-"`
	Query  AgendaQuery    `json:"-"`
	Spans  []Tab          `json:"-"`
	Pager  param.Pager    `json:"-"`
	Listed int            `json:"-"` // jobs that the filter selects
	// Soonest are the next firings of the jobs that the filter selects, one of each job.
	Soonest []AgendaJob `json:"-"`
	// Conflicts are the expected conflicts by job, holder and resource, the first one first.
	Conflicts  []Conflict `json:"-"`
	AllHours   bool       `json:"-"` // the page lists all hours
	OtherHours string     `json:"-"` // address of the page with more or fewer hours; "": none

	waits     map[firingKey]expectedWait
	waitTimes []time.Time // scheduled times of the firings with waits, the soonest first
}

// AgendaInterval is a part of the time of an agenda.
type AgendaInterval struct {
	From    time.Time `json:"from"`
	Firings int       `json:"firings"`
	Waits   int       `json:"waits"` // of them, firings that are expected to wait
}

// AgendaJob is a job and its firings.
type AgendaJob struct {
	Job string `json:"job"`
	// Band is "long_runs", "less_than_hourly", "hourly" or "more_than_hourly". A job that usually
	// runs for five minutes or more is in the first of them, whatever its firings are.
	Band    AgendaBand `json:"band"`
	Firings int        `json:"firings"`
	First   time.Time  `json:"first"` // scheduled time
	Last    time.Time  `json:"last"`  // scheduled time
	Waits   int        `json:"waits"`
	Skips   int        `json:"skips"`
	// Paused says that a pause covers the job. While it is active, the firings do not start.
	Paused bool    `json:"paused,omitempty"`
	Usual  float64 `json:"median_seconds"`        // of the last runs; 0 if unknown
	Long   float64 `json:"percentile_95_seconds"` // of the last runs; 0 if unknown
	// Times are the firings of a job that does not fire often, the soonest first.
	Times []AgendaFiring `json:"times"`

	typical storage.Typical
	tables  string // what it locks, as a list
	pause   *storage.Pause
}

// AgendaFiring is one firing.
type AgendaFiring struct {
	ScheduledAt time.Time `json:"scheduled_at"`
	// StartsAt is expected, after a wait. It is absent if the job is paused.
	StartsAt time.Time `json:"starts_at,omitzero"`
	// WaitsFor is the job that is expected to hold a resource then.
	WaitsFor string `json:"waits_for,omitempty"`
	Resource string `json:"resource,omitempty"`
	Skipped  bool   `json:"skipped,omitempty"` // it is expected to be skipped
}

// Agenda returns the page of the agenda that the query selects.
func (r *Reader) Agenda(ctx context.Context, now time.Time, q AgendaQuery) (Agenda, error) {
	a, err := r.agendas[q.Span.Name].Get(ctx, now)
	if err != nil {
		return a, err
	}
	var entries []AgendaJob
	text := strings.ToLower(q.Text)
	for _, job := range a.Entries {
		if text != "" && !strings.Contains(strings.ToLower(job.Job+"\n"+job.tables), text) ||
			q.Conflicts && job.Waits == 0 {
			continue
		}
		entries = append(entries, job)
	}
	a.Query, a.Listed = q, len(entries)
	if q.Skip == 0 {
		a.Soonest = soonest(slices.DeleteFunc(slices.Clone(entries),
			func(j AgendaJob) bool { return j.Paused }))
	}
	entries = entries[min(q.Skip, len(entries)):]
	a.Entries = append([]AgendaJob{}, entries[:min(agendaPage, len(entries))]...) // never null
	return a, nil
}

// soonest returns the jobs that fire first.
func soonest(entries []AgendaJob) []AgendaJob {
	sorted := slices.SortedStableFunc(slices.Values(entries),
		func(x, y AgendaJob) int { return x.First.Compare(y.First) })
	return sorted[:min(agendaSoonest, len(sorted))]
}

// findAgenda computes the firings of this replica's cron table in the next time.
func (r *Reader) findAgenda(ctx context.Context, now time.Time,
	length time.Duration) (Agenda, error) {
	a := Agenda{From: now.UTC(), Until: now.UTC().Add(length), Entries: []AgendaJob{},
		Intervals: []AgendaInterval{}, Hours: []AgendaHour{}, Cut: []string{}}
	if r.Next == nil || r.ScheduledTimes == nil {
		a.Cut = append(a.Cut, "This replica fires no jobs, so it knows no scheduled times")
		return a, nil
	}
	next := r.Next(a.From, maxAgendaJobs)
	jobs := agendaJobs(next)
	r.limitWaits(jobs, length)
	paused, err := r.paused(ctx)
	if err != nil {
		return a, err
	}
	paused.mark(jobs)
	f := UpcomingConflicts{From: a.From, Until: a.Until, Jobs: len(jobs)}
	firings := r.upcomingFirings(&f, jobs)
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if err := r.loadDurations(ctx, &f, jobs, firings, agendaBatches); err != nil {
		return a, err
	}
	a.Until, a.Cut = f.Until.UTC(), append(a.Cut, f.Cut...)
	held, err := expectedHolds(ctx, r, now)
	if err != nil {
		return a, err
	}
	a.waits = expectedWaits(jobs, held, firings)
	a.collect(jobs, firings)
	a.divide(jobs, firings, held)
	a.Conflicts = expectedConflicts(jobs, firings, a.waits)
	tables := tablesOf(next)
	for i := range a.Entries {
		a.Entries[i].tables = tables[a.Entries[i].Job]
	}
	return a, nil
}

// agendaJobs returns the jobs of the firings, by name. Only those that may conflict have requests.
func agendaJobs(next []NextFiring) []*contender {
	requests := make([]storage.JobRequests, len(next))
	for i, firing := range next {
		requests[i] = storage.JobRequests{Job: firing.Job, Requests: firing.Resources}
	}
	jobs := contendersOf(requests, nil)
	known := make(map[string]bool, len(jobs))
	for _, one := range jobs {
		known[one.job] = true
	}
	for _, firing := range next {
		if !known[firing.Job] {
			jobs = append(jobs, &contender{job: firing.Job})
		}
	}
	slices.SortFunc(jobs, func(a, b *contender) int { return strings.Compare(a.job, b.job) })
	return jobs
}

// tablesOf returns the names of the resources that each job locks.
func tablesOf(next []NextFiring) map[string]string {
	tables := make(map[string]string, len(next))
	for _, firing := range next {
		var names []string
		for _, request := range firing.Resources {
			if request.Resource.Kind() != locking.KindJob {
				names = append(names, request.Resource.String())
			}
		}
		tables[firing.Job] = strings.Join(names, ", ")
	}
	return tables
}

// firingKey identifies a firing of an agenda.
type firingKey struct {
	job string
	at  int64 // scheduled time, in nanoseconds since 1970
}

// expectedWait is why a firing is expected to wait.
type expectedWait struct {
	holder, resource string
	wait             time.Duration
	skipped          bool
}

// expectedWaits simulates the firings with the median durations of the jobs.
func expectedWaits(jobs []*contender, held []expectedHold,
	firings []upcomingFiring) map[firingKey]expectedWait {
	waits := make(map[firingKey]expectedWait)
	newSimulation(jobs, held...).simulate(firings,
		func(one *contender) time.Duration { return one.typical.Median },
		func(c *Conflict, at time.Time, wait time.Duration, skipped bool) {
			waits[firingKey{c.Job, at.UnixNano()}] =
				expectedWait{c.Holder, c.Resource, wait, skipped}
		})
	return waits
}

// expectedConflicts groups the expected waits by job, holder and resource. The one with the first
// scheduled time is first.
func expectedConflicts(jobs []*contender, firings []upcomingFiring,
	waits map[firingKey]expectedWait) (conflicts []Conflict) {
	places := make(map[[3]string]int)
	for _, f := range firings {
		wait, expected := waits[firingKey{jobs[f.contender].job, f.at.UnixNano()}]
		if !expected {
			continue
		}
		key := [3]string{jobs[f.contender].job, wait.holder, wait.resource}
		place, known := places[key]
		if !known {
			place = len(conflicts)
			places[key] = place
			conflicts = append(conflicts, Conflict{Job: key[0], Holder: key[1], Resource: key[2]})
		}
		conflicts[place].likely(f.at, wait.wait, wait.skipped)
	}
	return conflicts
}

// shownExpected is the number of expected conflicts that the page of the agenda lists.
const shownExpected = 9

// ConflictsShown returns the expected conflicts that the page lists.
func (a *Agenda) ConflictsShown() []Conflict {
	return a.Conflicts[:min(len(a.Conflicts), shownExpected)]
}

// ConflictsMore returns the number of expected conflicts that the page does not list.
func (a *Agenda) ConflictsMore() int { return len(a.Conflicts) - len(a.ConflictsShown()) }

// collect arranges the firings by job and by interval.
func (a *Agenda) collect(jobs []*contender, firings []upcomingFiring) {
	part := a.Until.Sub(a.From) / agendaIntervals
	for i := range agendaIntervals {
		a.Intervals = append(a.Intervals,
			AgendaInterval{From: a.From.Add(time.Duration(i) * part)})
	}
	entries := make([]AgendaJob, len(jobs))
	for _, f := range firings {
		one, entry := jobs[f.contender], &entries[f.contender]
		wait, waiting := a.waits[firingKey{one.job, f.at.UnixNano()}]
		entry.add(f.at, wait, waiting)
		if one.pause != nil {
			continue
		}
		a.ScheduledTimes++
		interval := &a.Intervals[min(int(f.at.Sub(a.From)/max(part, 1)), agendaIntervals-1)]
		interval.Firings++
		if waiting {
			interval.Waits++
			a.Waits++
			a.waitTimes = append(a.waitTimes, f.at)
		}
		if wait.skipped {
			a.Skips++
		}
	}
	for i := range entries {
		if entry := &entries[i]; entry.Firings > 0 {
			entry.finish(jobs[i])
			entry.Band = entry.bandOf(a.Until.Sub(a.From))
			a.Entries = append(a.Entries, *entry)
			if entry.Paused {
				a.PausedJobs++
			}
		}
	}
	a.Jobs = len(a.Entries) - a.PausedJobs
	slices.SortFunc(a.Entries, func(x, y AgendaJob) int {
		place := func(j AgendaJob) int { return slices.Index(AgendaBands(), j.Band) }
		return cmp.Or(place(x)-place(y), x.First.Compare(y.First), strings.Compare(x.Job, y.Job))
	})
}

func (j *AgendaJob) add(at time.Time, wait expectedWait, waiting bool) {
	if j.Firings++; j.Firings == 1 {
		j.First = at
	}
	j.Last = at
	if waiting {
		j.Waits++
	}
	if wait.skipped {
		j.Skips++
	}
	if len(j.Times) < maxAgendaTimes {
		j.Times = append(j.Times, AgendaFiring{ScheduledAt: at, StartsAt: at.Add(wait.wait),
			WaitsFor: wait.holder, Resource: wait.resource, Skipped: wait.skipped})
	}
}

// finish adds what is known of the job, after all of its firings.
func (j *AgendaJob) finish(one *contender) {
	j.Job, j.typical = one.job, one.typical
	j.Usual, j.Long = one.typical.Median.Seconds(), one.typical.Long.Seconds()
	if j.Firings > maxAgendaTimes {
		j.Times = []AgendaFiring{}
	}
	if j.pause = one.pause; j.pause != nil {
		j.Paused = true
		for i := range j.Times {
			j.Times[i].StartsAt = time.Time{}
		}
	}
}

// PauseWords names the pause of the job and who paused it, or returns "".
func (j AgendaJob) PauseWords() string {
	switch {
	case j.pause == nil:
		return ""
	case j.pause.By == "":
		return "paused"
	}
	return "paused by " + words.Cut(j.pause.By, 60)
}

// Words describes the firings of the job in a few words.
func (j AgendaJob) Words() string {
	text := words.Figure(j.Firings, "firing", "firings")
	if j.typical.Runs > 0 {
		text += ", usually " + words.Took(j.typical.Median)
	}
	return text
}

// WaitWords describes the expected waits, or returns "".
func (j AgendaJob) WaitWords() string {
	switch {
	case j.Waits == 0:
		return ""
	case j.Skips == j.Waits:
		return words.Count(j.Skips) + " skipped"
	case j.Skips > 0:
		return words.Figure(j.Waits-j.Skips, "waits", "wait") + ", " + words.Count(j.Skips) +
			" skipped"
	}
	return words.Figure(j.Waits, "waits", "wait")
}

// Median returns the usual duration in words, or "".
func (j AgendaJob) Median() string {
	if j.typical.Runs == 0 {
		return ""
	}
	return words.Took(j.typical.Median)
}

// Summary counts the firings in words.
func (a *Agenda) Summary() string {
	paused := ""
	if a.PausedJobs > 0 {
		paused = " " + words.Figure(a.PausedJobs, "paused job starts", "paused jobs start") +
			" no runs."
	}
	switch {
	case a.ScheduledTimes == 0 && a.PausedJobs > 0:
		return "No firings are expected in this time." + paused
	case a.ScheduledTimes == 0:
		return "This replica knows no firings in this time."
	}
	text := fmt.Sprintf("%s of %s %s scheduled until %s.",
		words.Figure(a.ScheduledTimes, "firing", "firings"), words.Figure(a.Jobs, "job", "jobs"),
		words.Verb(a.ScheduledTimes, "is", "are"), words.UTC(a.Until))
	if a.Waits == 0 {
		return text + " No conflicts are expected." + paused
	}
	text += fmt.Sprintf(" %s to wait for another job",
		words.Figure(a.Waits, "firing is expected", "firings are expected"))
	if a.Skips > 0 {
		text += ", and " + words.Count(a.Skips) + " of them to be skipped"
	}
	return text + "." + paused
}
