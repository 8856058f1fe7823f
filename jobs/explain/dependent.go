package explain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// explainDependencies explains each dependency of the job at the time.
func (s *subject) explainDependencies() error {
	for _, name := range s.job.Schedule.After() {
		e, err := s.explainAt(s.ctx, name, s.at, s.explained)
		if errors.Is(err, storage.ErrNotFound) {
			e, err = Explanation{Verdict: VerdictNotScheduled, Summary: "No replica knows it."}, nil
		}
		if err != nil {
			return fmt.Errorf("dependency %q: %w", name, err)
		}
		f := Dependency{Job: name, Verdict: e.Verdict, Summary: e.Summary}
		if n := len(e.Runs); n > 0 {
			f.State = e.Runs[n-1].State
		}
		s.After = append(s.After, f)
		if done := lastSuccess(e.Runs); done.After(s.ready()) {
			s.start = done.Add(s.job.Schedule.Delay(s.Explanation.Job, s.at))
		}
	}
	return nil
}

// ready returns when the last of the dependencies explained so far succeeded.
func (s *subject) ready() time.Time {
	return s.start.Add(-s.job.Schedule.Delay(s.Explanation.Job, s.at))
}

func lastSuccess(runs []storage.Record) time.Time {
	for _, r := range runs {
		if r.State == jobs.Succeeded && r.FinishedAt != nil {
			return *r.FinishedAt
		}
	}
	return time.Time{}
}

// explainDependent explains a dependent that has no run for the time.
func (s *subject) explainDependent() error {
	var notScheduled, ended, open []string
	for _, f := range s.After {
		switch {
		case f.Verdict == VerdictRan && f.State == jobs.Succeeded:
		case f.Verdict == VerdictNotScheduled, f.Verdict == VerdictExcluded,
			f.Verdict == VerdictNotCounted, f.Verdict == VerdictForgotten:
			notScheduled = append(notScheduled, f.Job)
		case f.Verdict == VerdictRan, f.Verdict == VerdictSkipped, f.Verdict == VerdictMissed,
			f.Verdict == VerdictCancelled, f.Verdict == VerdictDependencyFailed:
			ended = append(ended, f.Job)
		default:
			open = append(open, f.Job)
		}
	}
	calendar, excluded := s.job.Schedule.ExcludedAt(s.at)
	switch {
	case len(notScheduled) > 0 && s.only(VerdictForgotten):
		return s.say(VerdictForgotten,
			"Its outcome is no longer known: the history is kept for %s.", days(s.keep))
	case len(notScheduled) > 0:
		return s.say(VerdictNotScheduled,
			"It is not due at %s, because it depends on %s, which has "+
				"no run for that scheduled time: %s.", s.shown(s.at), notScheduled[0],
			s.reported(notScheduled[0]))
	case excluded:
		s.ExcludedBy = calendar
		return s.say(VerdictExcluded, "It is not run, because calendar %s excludes %s.", calendar,
			s.shown(s.at))
	case len(ended) > 0:
		return s.say(VerdictDependencyFailed,
			"It was not run, because its dependency %s did not succeed: %s.", ended[0],
			s.reported(ended[0]))
	case len(open) > 0 && s.Now.Before(s.at):
		return s.say(VerdictFuture, "It is due when %s %s succeeded for %s.",
			listed(s.job.Schedule.After()), haveOrHas(s.job.Schedule.After()), s.shown(s.at))
	case len(open) > 0:
		return s.say(VerdictAwaitingDependencies, "It waits for %s to succeed: %s.", listed(open),
			s.reported(open[0]))
	}
	return s.explainNoRun()
}

// only reports whether v is the only reason why the job is not due: a dependency has this verdict,
// and no dependency is not scheduled, excluded or not counted.
func (s *subject) only(v Verdict) bool {
	found := false
	for _, f := range s.After {
		switch f.Verdict {
		case v:
			found = true
		case VerdictNotScheduled, VerdictExcluded, VerdictNotCounted:
			return false
		}
	}
	return found
}

// reported returns the summary of a dependency, as part of another sentence.
func (s *subject) reported(name string) string {
	for _, f := range s.After {
		if f.Job == name {
			text := strings.TrimSuffix(f.Summary, ".")
			return strings.ToLower(text[:1]) + text[1:]
		}
	}
	return ""
}

func listed(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func haveOrHas(names []string) string {
	if len(names) == 1 {
		return "has"
	}
	return "have"
}
