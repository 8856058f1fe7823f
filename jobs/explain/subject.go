package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// say sets the verdict. It returns nil, for callers that return an error.
func (s *subject) say(verdict Verdict, format string, args ...any) error {
	s.Verdict, s.Summary = verdict, fmt.Sprintf(format, args...)
	return nil
}

// shown returns the time as the clocks of the job's zone show it.
func (s *subject) shown(t time.Time) string { return shownIn(s.job, t) }

// decide sets the verdict: from the records of the firing, or else from the schedule and the job's
// cursor.
func (s *subject) decide() error {
	s.start = s.at.Add(s.job.Schedule.Delay(s.Explanation.Job, s.at))
	if len(s.job.Schedule.After()) > 0 {
		if err := s.explainDependencies(); err != nil {
			return err
		}
	}
	if err := s.readPauses(); err != nil {
		return err
	}
	if len(s.Runs) > 0 {
		return s.explainRun(s.Runs[len(s.Runs)-1])
	}
	switch {
	case s.view.Removed && s.at.After(s.view.UpdatedAt):
		return s.say(VerdictNotScheduled, "It is not due: the job was removed at %s.",
			s.shown(s.view.UpdatedAt))
	case len(s.job.Schedule.After()) > 0:
		return s.explainDependent()
	case !s.isScheduled(s.job, s.at):
		return s.explainNotScheduled()
	}
	return s.explainNoRun()
}

func (s *subject) readPauses() error {
	if s.sources.Pauses == nil {
		return nil
	}
	at, group := s.start, s.job.Group
	if s.view.Version > 0 { // replicas obey the pauses of the active definition's group
		group = s.view.Group
	}
	pauses, err := s.sources.Pauses(s.ctx, s.Explanation.Job, group, at, at)
	if err != nil {
		return fmt.Errorf("pauses: %w", err)
	}
	s.Explanation.Pauses = pauses
	return nil
}

func (s *subject) manualRuns() error {
	page, err := s.sources.Store.Runs(s.ctx,
		storage.RunFilter{Job: s.Explanation.Job,
			Before: &storage.RunCursor{CreatedAt: s.at.Add(nearby), ID: uuid.Max}, Limit: 200})
	if err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	s.ManualRuns = named(s.view.Manual)
	for _, r := range page {
		if r.Key != "" && r.Backfill == uuid.Nil && !r.ScheduledAt.Equal(s.at) &&
			!r.CreatedAt.Before(s.at.Add(-nearby)) {
			s.ManualRuns = append(s.ManualRuns, named([]storage.Record{r})...)
		}
	}
	return nil
}

// explainNotScheduled explains a time at which the job is not due.
func (s *subject) explainNotScheduled() error {
	if calendar, excluded := s.job.Schedule.Excluded(s.at); excluded {
		s.ExcludedBy = calendar
		return s.say(VerdictExcluded, "It was not run, because calendar %s excludes %s.", calendar,
			s.shown(s.at))
	}
	if s.job.Schedule.String() == "" {
		return s.say(VerdictNotScheduled,
			"It is never due: it has no schedule and runs only when triggered.")
	}
	return s.say(VerdictNotScheduled, "It is not due at %s: %s.", s.shown(s.at),
		s.nearestScheduledTimes())
}

// nearestScheduledTimes describes the nearest scheduled times.
func (s *subject) nearestScheduledTimes() string {
	var words []string
	if s.ScheduledBefore != nil {
		words = append(words, "the scheduled time before is "+s.shown(*s.ScheduledBefore))
	}
	if s.ScheduledAfter != nil {
		words = append(words, "the next is "+s.shown(*s.ScheduledAfter))
	}
	if len(words) == 0 {
		return "there is no scheduled time near it"
	}
	return strings.Join(words, ", ")
}

// explainNoRun explains a scheduled time that has neither a run nor a record.
func (s *subject) explainNoRun() error {
	now, late := s.Now, s.Now.Sub(s.start)
	paused := s.activePause()
	switch {
	case now.Before(s.at) && paused != nil:
		return s.say(VerdictFuture, "It is due in %s, at %s%s; %s.", rounded(s.at.Sub(now)),
			s.shown(s.at), s.delayed(), s.pausedWords(*paused))
	case now.Before(s.start):
		return s.say(VerdictFuture, "It %s, at %s%s.", within(s.at.Sub(now)), s.shown(s.at),
			s.delayed())
	case s.view.Version > 0 && s.at.After(s.view.CheckedUntil) && paused != nil:
		return s.say(VerdictPaused,
			"It was to start at %s, but %s. When the pause ends, the misfire policy decides.",
			s.shown(s.start), s.pausedWords(*paused))
	case s.view.Version > 0 && s.at.After(s.view.CheckedUntil):
		return s.explainLate(late)
	case s.at.Before(now.Add(-s.keep)):
		return s.say(VerdictForgotten, "Its outcome is no longer known: the history is kept for "+
			"%s, and the scheduled time was %s ago.", days(s.keep), days(now.Sub(s.at)))
	case s.view.Version == 0:
		return s.say(VerdictNotCounted, "It was not run: no replica has registered the job yet.")
	case !s.at.After(s.view.UpdatedAt):
		return s.say(VerdictNotCounted, "There is no record of it: the job's active definition "+
			"is of %s. Before that time, the job did not exist, had another schedule, or had an "+
			"outage. Only the last scheduled times of an outage have one record each.",
			s.shown(s.view.UpdatedAt))
	}
	return s.say(VerdictNotCounted, "There is no record of it: it is one of the earlier scheduled "+
		"times of an outage. Only the last scheduled times of an outage have one record each.")
}

// explainLate explains a scheduled time that has passed without a decision.
func (s *subject) explainLate(late time.Duration) error {
	live, why, err := s.startingReplicas()
	switch {
	case err != nil:
		return err
	case live == 0:
		return s.say(VerdictLate, "It was to start at %s, %s ago, but %s. "+
			"When a replica starts, the misfire policy decides.", s.shown(s.start),
			rounded(late), why)
	case why != "":
		why = ": " + why
	}
	if late <= s.job.MisfireThreshold || s.job.MisfireThreshold == 0 {
		return s.say(VerdictLate,
			"It was to start at %s, %s ago, and no replica has started it yet%s.",
			s.shown(s.start), rounded(late), why)
	}
	return s.say(VerdictLate, "It was to start at %s, %s ago, and no replica has started "+
		"it%s. At the next check for misfires, the misfire policy decides.",
		s.shown(s.start), rounded(late), why)
}

// startingReplicas returns the number of live replicas that are not stopping, and why none of them
// starts runs. Why is "" if one of them is not draining.
func (s *subject) startingReplicas() (live int, why string, err error) {
	replicas, err := s.sources.Store.Replicas(s.ctx)
	if err != nil {
		return 0, "", fmt.Errorf("replicas: %w", err)
	}
	draining := 0
	for _, r := range replicas {
		if r.LiveAt(s.Now) && !r.Stopping {
			live++
			if r.Draining {
				draining++
			}
		}
	}
	switch {
	case live == 0:
		return 0, "no replica is live", nil
	case draining == live:
		return live, "every live replica is draining", nil
	}
	return live, "", nil
}

// activePause returns the active pause of the job, or nil.
func (s *subject) activePause() *storage.Pause {
	for i, p := range s.Explanation.Pauses {
		if p.ResumedAt == nil {
			return &s.Explanation.Pauses[i]
		}
	}
	return nil
}

func (s *subject) pausedWords(p storage.Pause) string {
	words := fmt.Sprintf("%s has been paused since %s by %s", p.Target, s.shown(p.At), p.By)
	if p.Reason != "" {
		words += fmt.Sprintf(" (%s)", p.Reason)
	}
	return words
}

// delayed describes the delay by jitter; "" without one.
func (s *subject) delayed() string {
	if s.start.Equal(s.at) {
		return ""
	}
	return fmt.Sprintf(", and starts %s later by its jitter", rounded(s.start.Sub(s.at)))
}

func shownIn(job jobs.Job, t time.Time) string {
	return t.In(job.Schedule.Zone()).Format("2006-01-02 15:04:05 MST")
}

func within(d time.Duration) string {
	if d <= 0 {
		return "was due " + rounded(-d) + " ago"
	}
	return "is due in " + rounded(d)
}

// rounded returns a duration in at most two units.
func rounded(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return days(d)
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Millisecond)
	}
	return durations.Short(d)
}

func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return rounded(d)
	}
	return fmt.Sprintf("%d days", int(d/day))
}
