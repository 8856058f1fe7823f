package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// shownFailing is the number of failing jobs that the page lists.
const shownFailing = 12

// FailingGroup is jobs whose last runs failed with errors that differ only in names and numbers.
type FailingGroup struct {
	Error string       `json:"error"` // that of the first job, in one line; "" if it is unknown
	Jobs  []FailingJob `json:"jobs"`  // longest failing first
}

// FailingJob is a job whose last run failed.
type FailingJob struct {
	Job      string    `json:"job"`
	Failures int       `json:"failures"` // in a row
	AtLeast  bool      `json:"at_least"` // there may be earlier failures, before Since
	Since    time.Time `json:"since"`    // end of the first failure
	Last     time.Time `json:"last"`     // end of the last failure
}

// FailingJobs returns the jobs whose last runs all failed, by the rule of the status, sorted by
// name. With a Rules.FailingAfter of 1, these are the jobs of Overview.Failing. A job whose last
// run succeeded is none of them. Of at most maxSuspects jobs it is known.
func (r *Reader) FailingJobs(ctx context.Context, now time.Time, rules Rules) ([]string, error) {
	facts, err := r.known.Get(ctx, now)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, job := range slices.Sorted(maps.Keys(facts.Outcomes)) {
		s := facts.streak(job, now)
		if s.Failures >= rules.failingAfter() && s.EndedAt == nil &&
			now.Sub(s.Last) <= maxFailureAge {
			names = append(names, job)
		}
	}
	return names, nil
}

// errorLine is an error in one line.
type errorLine struct {
	text        string
	fingerprint string // what errors of the same kind have in common
}

func newErrorLine(text string) errorLine {
	text = words.OneLine(text, 300)
	return errorLine{text, varying.ReplaceAllString(text, "#")}
}

// failingGroups returns the jobs whose last runs failed, grouped by their last errors. The group
// with the job that has failed for the longest time is first.
func failingGroups(f Facts, now time.Time) []FailingGroup {
	groups := []FailingGroup{}
	var keys []string
	for _, job := range slices.Sorted(maps.Keys(f.Outcomes)) {
		s := f.streak(job, now)
		if s.Failures == 0 || s.EndedAt != nil || now.Sub(s.Last) > maxFailureAge {
			continue
		}
		key := f.errors[job].fingerprint
		place := slices.Index(keys, key)
		if place < 0 {
			place = len(groups)
			keys, groups = append(keys, key), append(groups, FailingGroup{})
		}
		g := &groups[place]
		g.Jobs = append(g.Jobs, FailingJob{job, s.Failures, s.Open, s.Since, s.Last})
	}
	for i, g := range groups {
		slices.SortFunc(g.Jobs, longestFailing)
		groups[i].Error = f.errors[g.Jobs[0].Job].text
	}
	slices.SortFunc(groups, func(a, b FailingGroup) int {
		return longestFailing(a.Jobs[0], b.Jobs[0])
	})
	return groups
}

// longestFailing orders the jobs by the begin of their failures, the earliest first. This order
// stays while they fail, unlike that of the numbers of failures. A job that may have begun before
// Since is first, because its Since grows with each failure.
func longestFailing(a, b FailingJob) int {
	switch {
	case a.AtLeast && !b.AtLeast:
		return -1
	case b.AtLeast && !a.AtLeast:
		return 1
	case a.AtLeast:
		return strings.Compare(a.Job, b.Job)
	}
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Job, b.Job))
}

// FailingShown returns the groups that the page lists, with at most shownFailing jobs.
func (o *Overview) FailingShown() (shown []FailingGroup) {
	left := shownFailing
	for _, g := range o.Failing {
		if left == 0 {
			break
		}
		g.Jobs = g.Jobs[:min(len(g.Jobs), left)]
		left -= len(g.Jobs)
		shown = append(shown, g)
	}
	return shown
}

// FailingJobs returns the number of jobs whose last run failed.
func (o *Overview) FailingJobs() (n int) {
	for _, g := range o.Failing {
		n += len(g.Jobs)
	}
	return n
}

// FailingMore returns the number of failing jobs that the page does not list.
func (o *Overview) FailingMore() int { return max(0, o.FailingJobs()-shownFailing) }
