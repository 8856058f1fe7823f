package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// failingPath is the list of jobs whose last run failed.
	failingPath = "/#failing"
	// minLongWait is the shortest wait that is reported.
	minLongWait = time.Minute
	// A run is long from minLongRun on, and if it takes longRunFactor times as long as 95% of the
	// last runs of its job. With fewer runs than usualRuns the usual duration is not known.
	minLongRun    = time.Minute
	longRunFactor = 3
	usualRuns     = 5
	// seldom is the time between firings from which one failure is reported.
	seldom = time.Hour
	// A job is skipped repeatedly after skipsInARow, or after seldomSkipsInARow if the time between
	// its firings is more than seldomSkipped.
	skipsInARow       = 5
	seldomSkipsInARow = 2
	seldomSkipped     = 15 * time.Minute
	// sweepTime bounds the time between the end of a lost session and the end of its runs.
	sweepTime = 10 * time.Second
	// missedWithin is how long missed firings are reported.
	missedWithin = time.Hour
	// maxNamed is the number of jobs that a problem names.
	maxNamed = 4
)

// failingProblems reports jobs whose last runs all failed. The problem of a job that has succeeded
// since has ended.
func failingProblems(e Evidence, add func(Problem)) {
	for _, job := range slices.Sorted(maps.Keys(e.Outcomes)) {
		s := e.streak(job, e.Now)
		if s.Failures < e.Rules.failingAfter() || e.Now.Sub(s.Last) > maxFailureAge {
			continue
		}
		times := words.PlainFigure(s.Failures, "time", "times")
		if s.Open {
			times = "at least " + times
		}
		text := "Job " + words.Cut(job, 200) + " failed " + times + " in a row."
		p := Problem{Kind: KindJobFailing, Severity: Red, Subject: job, Link: param.JobPath(job),
			Text: text, Since: &s.Since, AtLeast: s.Open, EndedAt: s.EndedAt, Count: s.Failures,
			ended: text}
		if s.EndedAt != nil {
			p.Text += " Its last run succeeded."
		}
		add(p)
	}
}

// failedProblems reports the jobs that failed less often in a row than failing jobs: twice, or once
// if the next chance to succeed comes late. The problem of a lost replica names the jobs whose runs
// were lost with it.
func failedProblems(e Evidence, add func(Problem)) {
	var failed, known []string
	var since time.Time
	for _, l := range lostReplicas(e) {
		known = append(known, lostJobs(e, l)...)
	}
	for _, job := range slices.Sorted(maps.Keys(e.Outcomes)) {
		s := e.streak(job, e.Now)
		switch {
		case s.Failures == 0, s.EndedAt != nil, s.Failures >= e.Rules.failingAfter(),
			e.Now.Sub(s.Last) > maxFailureAge, slices.Contains(known, job),
			s.Failures == 1 && timeBetween(e.Outcomes[job], e.Now) < seldom:
			continue
		}
		failed = append(failed, job)
		if since.IsZero() || s.Since.Before(since) {
			since = s.Since
		}
	}
	if n := len(failed); n > 0 {
		what := words.Verb(n, "The last run of job ", "The last runs of these jobs failed: ")
		add(Problem{Kind: KindJobFailed, Severity: Amber, Link: failingPath, Since: &since,
			Count: n, Text: what + named(failed) + words.Verb(n, " failed.", "."),
			ended: words.Verb(n, "The last run of 1 job had failed.",
				"The last runs of "+fmt.Sprint(n)+" jobs had failed.")})
	}
}

// named lists at most maxNamed names of jobs.
func named(names []string) string {
	short := make([]string, 0, maxNamed)
	for _, name := range names[:min(len(names), maxNamed)] {
		short = append(short, words.Cut(name, 100))
	}
	text := strings.Join(short, ", ")
	if more := len(names) - len(short); more > 0 {
		text += " and " + words.Number(more) + " more"
	}
	return text
}

// timeBetween returns the median of the times between the outcomes' scheduled times, so that a
// trigger of a nightly job does not make it look like a frequent one. Of a single outcome it
// returns the time since then.
func timeBetween(outcomes []storage.Outcome, now time.Time) time.Duration {
	switch len(outcomes) {
	case 0:
		return 0
	case 1:
		return now.Sub(outcomes[0].ScheduledAt)
	}
	between := make([]time.Duration, len(outcomes)-1)
	for i, o := range outcomes[1:] {
		between[i] = outcomes[i].ScheduledAt.Sub(o.ScheduledAt).Abs()
	}
	slices.Sort(between)
	return between[len(between)/2]
}

// waitGroup is runs that wait too long for the same job.
type waitGroup struct {
	root  locks.Root
	count int
	since time.Time
}

// waitGroups returns the runs that wait for longer than the runs of their job usually do, grouped
// by the job at the end of the chain of waits.
func waitGroups(e Evidence) (groups []*waitGroup) {
	chains, byName := locks.NewChains(e.Waiting), make(map[string]*waitGroup)
	for _, run := range e.Waiting {
		since := waitsSince(run)
		if since.IsZero() || e.Now.Sub(since) <= max(minLongWait, e.Delays[run.Job].Long) {
			continue
		}
		at := chains.Root(run)
		g := byName[at.Name()]
		if g == nil {
			g = &waitGroup{root: at, since: since}
			groups, byName[at.Name()] = append(groups, g), g
		}
		g.count++
		if since.Before(g.since) {
			g.since = since
		}
	}
	return groups
}

// waitsSince returns since when a run waits for a blocker or for a worker, or zero in a retry wait.
func waitsSince(run storage.Record) time.Time {
	if run.Reason == reasons.Retry {
		return time.Time{}
	}
	return records.Since(run)
}

// waitFacts is what the rules of long waits, long runs and skipped firings share. They are found
// once, because each rule needs them for each of its problems.
type waitFacts struct {
	groups   []*waitGroup
	reported map[string]bool // jobs that hold what others wait for too long
	long     []*storage.Record
	skipped  []string // jobs whose last firings were all skipped
}

func waitFactsOf(e Evidence) waitFacts {
	w := waitFacts{groups: waitGroups(e), reported: make(map[string]bool), long: longRuns(e),
		skipped: skippedJobs(e)}
	for _, g := range w.groups {
		if g.root.Holder.Job != "" {
			w.reported[g.root.Holder.Job] = true
		}
	}
	return w
}

// waitProblems reports runs that wait too long. The problems of a group include what follows from
// its cause: a long run of the holder, and skipped firings.
func waitProblems(e Evidence, w waitFacts, add func(Problem)) {
	long := make(map[string]*storage.Record, len(w.long)) // by the id of the run
	for _, run := range w.long {
		long[run.ID.String()] = run
	}
	skipped := make(map[string][]string) // by the job at the end of the chain
	for _, job := range w.skipped {
		root := rootOf(e.Skipped[job])
		skipped[root] = append(skipped[root], job)
	}
	for _, g := range w.groups {
		behind, holds := "", ""
		if name := g.root.Name(); name != "" {
			behind = " behind " + name
			if g.root.Resource != "" {
				holds = ", which holds " + words.Cut(g.root.Resource, 200)
			}
		}
		text := words.PlainFigure(g.count, "run waits", "runs wait") + " longer than usual" +
			behind + holds + "."
		if run := long[g.root.Holder.Run]; run != nil {
			text += " Job " + words.Cut(run.Job, 200) + " usually takes " +
				words.Took(e.Usual[run.Job].Median) + "."
		}
		if names := skipped[g.root.Holder.Job]; len(names) > 0 {
			text += " Firings of " + named(names) + " are skipped because of it."
		}
		add(Problem{Kind: KindLongWait, Severity: Amber, Subject: g.root.Holder.Job, Link: "/locks",
			Since: &g.since, Count: g.count, Text: text,
			ended: words.PlainFigure(g.count, "run", "runs") + " waited longer than usual" +
				behind + "."})
	}
}

// longRuns returns the runs that take much longer than usual, the oldest first.
func longRuns(e Evidence) (long []*storage.Record) {
	for i := range e.Running {
		run := &e.Running[i]
		usual, took := e.Usual[run.Job], e.Now.Sub(records.Since(*run))
		if usual.Runs >= usualRuns && took >= minLongRun && took > longRunFactor*usual.Long {
			long = append(long, run)
		}
	}
	return long
}

// longRunProblems reports runs that take much longer than usual, unless a long wait names their
// job.
func longRunProblems(e Evidence, w waitFacts, add func(Problem)) {
	for _, run := range w.long {
		if w.reported[run.Job] {
			continue
		}
		since, usual := records.Since(*run), e.Usual[run.Job]
		job := words.Cut(run.Job, 200)
		add(Problem{Kind: KindLongRun, Severity: Amber, Subject: run.Job,
			Link: "/runs/" + run.ID.String(), Since: &since, aspect: run.ID.String(),
			Text: "A run of job " + job + " takes longer than " + words.Number(longRunFactor) +
				" times as long as usual. 95% of its last " + words.PlainFigure(usual.Runs, "run",
				"runs") + " took at most " + words.Took(usual.Long) + ".",
			ended: "A run of job " + job + " took much longer than usual."})
	}
}

// skippedJobs returns the jobs whose last firings were all skipped.
func skippedJobs(e Evidence) (names []string) {
	for _, job := range slices.Sorted(maps.Keys(e.Skipped)) {
		if skipsRepeatedly(e.Outcomes[job], e.Now) {
			names = append(names, job)
		}
	}
	return names
}

// rootOf returns the job at the end of the chain of waits that a skipped run recorded, or "".
func rootOf(run storage.Record) string {
	if run.BlockedBy == nil {
		return ""
	}
	return cmp.Or(run.BlockedBy.Root.Holder.Job, run.BlockedBy.Holder.Job)
}

// skippedProblems reports jobs whose last firings were all skipped, unless a long wait names them.
func skippedProblems(e Evidence, w waitFacts, add func(Problem)) {
	for _, job := range w.skipped {
		root := rootOf(e.Skipped[job])
		if w.reported[root] {
			continue
		}
		n, since := skipsOf(e.Outcomes[job])
		times := words.PlainFigure(n, "time", "times")
		if n == outcomesOfJob {
			times = "at least " + times
		}
		text := "Job " + words.Cut(job, 200) + " was skipped " + times + " in a row."
		if root != "" {
			text += " Root blocker: " + words.Cut(root, 200) + "."
		} else if why := words.Why(e.Skipped[job]); why != "" {
			text += " Reason: " + words.Sentence(why)
		}
		add(Problem{Kind: KindSkipped, Severity: Amber, Subject: job, Link: param.JobPath(job),
			Since: &since, AtLeast: n == outcomesOfJob, Count: n, Text: text,
			ended: "Job " + words.Cut(job, 200) + " was skipped several times in a row."})
	}
}

// missedProblems reports jobs with misfires within missedWithin, except those of a pause.
func missedProblems(e Evidence, add func(Problem)) {
	missed := make(map[string]bool)
	var last time.Time
	for _, count := range e.Missed {
		if e.Now.Sub(count.Last) >= missedWithin || count.Reason == reasons.Paused {
			continue
		}
		missed[count.Job] = true
		if at := count.Last.UTC(); at.After(last) {
			last = at
		}
	}
	if n := len(missed); n > 0 {
		add(Problem{Kind: KindMissed, Severity: Amber, Link: "/runs?state=missed", Since: &last,
			Count: n, Text: "Firings of " + named(slices.Sorted(maps.Keys(missed))) +
				" were missed within the last hour.",
			ended: "Firings of " + words.PlainFigure(n, "job", "jobs") + " were missed."})
	}
}
