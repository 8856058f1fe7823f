package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// explainRun explains a firing that has a run or a record: the last of them decides.
func (s *subject) explainRun(r storage.Record) error {
	switch r.State {
	case jobs.Running:
		return s.say(VerdictRunning, "It has run on replica %s since %s, %s.", r.Replica,
			s.shownOrNone(r.StartedAt), s.numbers(r))
	case jobs.Waiting:
		return s.explainWaiting(r)
	case jobs.Skipped:
		return s.say(VerdictSkipped, "It was skipped (%s): %s.", r.Reason, why(r))
	case jobs.Missed:
		return s.say(VerdictMissed, "It was missed (%s): %s%s.", r.Reason, why(r), s.pausedThen())
	}
	if r.StartedAt == nil {
		return s.say(VerdictCancelled, "It did not run, and ended as %s: %s.", r.State, why(r))
	}
	return s.say(VerdictRan, "It ran on replica %s at %s%s and %s, %s.", r.Replica,
		s.shown(*r.StartedAt), took(r), outcome(r), s.numbers(r))
}

func (s *subject) shownOrNone(t *time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return s.shown(*t)
}

// numbers describes the token of a run, its attempt and its recovery.
func (s *subject) numbers(r storage.Record) string {
	words := []string{fmt.Sprintf("with token %d", r.Token)}
	if r.Attempt > 1 {
		words = append(words, fmt.Sprintf("in attempt %d", r.Attempt))
	}
	if r.Recovery > 0 {
		words = append(words, fmt.Sprintf("as recovery %d of a run that was lost on replica %s",
			r.Recovery, s.lostOn(r.Recovery-1)))
	}
	if late := r.CreatedAt.Sub(s.start); r.Recovery == 0 && s.job.MisfireThreshold > 0 &&
		late > s.job.MisfireThreshold {
		words = append(words, fmt.Sprintf("%s late", rounded(late)))
	}
	return strings.Join(words, ", ")
}

func (s *subject) lostOn(recovery int) string {
	for _, r := range s.Runs {
		if r.Recovery == recovery {
			return r.Replica
		}
	}
	return "unknown"
}

func took(r storage.Record) string {
	length, ended := r.Took()
	if !ended {
		return ""
	}
	return fmt.Sprintf(" for %s", rounded(length))
}

func outcome(r storage.Record) string {
	verb := map[jobs.State]string{
		jobs.Succeeded: "succeeded", jobs.Failed: "failed", jobs.TimedOut: "exceeded its timeout",
		jobs.Cancelled: "was cancelled", jobs.Lost: "was lost",
	}[r.State]
	if text := firstLine(firstOf(r.Error, r.Detail)); text != "" && r.State != jobs.Succeeded {
		verb += ": " + text
	}
	return verb
}

func waitsSince(r storage.Record) time.Time {
	if r.WaitSince.IsZero() {
		return r.CreatedAt
	}
	return r.WaitSince
}

// explainWaiting explains a firing whose run waits.
func (s *subject) explainWaiting(r storage.Record) error {
	words := waitsFor(r)
	if r.Replica == "" { // a replica must adopt it
		_, why, err := s.startingReplicas()
		if err != nil {
			return err
		}
		if why != "" {
			words += "; " + why
		}
	}
	return s.say(VerdictWaiting, "Its run has waited since %s: %s.", s.shown(waitsSince(r)),
		words)
}

// waitsFor describes what a waiting run waits for.
func waitsFor(r storage.Record) string {
	if r.BlockedBy != nil {
		return r.BlockedBy.Words("is held by")
	}
	switch r.Reason {
	case reasons.NoWorker:
		if r.Replica == "" {
			return "no replica with a free worker has adopted it yet"
		}
		return "replica " + r.Replica + " has no free worker"
	case reasons.Retry:
		return firstOf(r.Detail, "an attempt failed") + ", and the next one follows"
	case reasons.Paused:
		return firstOf(r.Detail, "it is paused")
	}
	return firstOf(r.Detail, "no replica has adopted it yet")
}

// why returns why a firing did not run.
func why(r storage.Record) string {
	if r.Detail != "" {
		return strings.TrimSuffix(firstLine(r.Detail), ".")
	}
	if r.BlockedBy != nil {
		return r.BlockedBy.Words("was held by")
	}
	return firstOf(firstLine(r.Error), strings.ReplaceAll(string(r.Reason), "_", " "),
		"no reason was recorded")
}

// pausedThen describes the pause at the time when the firing was to start.
func (s *subject) pausedThen() string {
	if len(s.Explanation.Pauses) == 0 {
		return ""
	}
	p := s.Explanation.Pauses[0]
	if p.ResumedAt == nil {
		return "; " + s.pausedWords(p)
	}
	return fmt.Sprintf("; %s was paused by %s from %s until %s", p.Target, p.By, s.shown(p.At),
		s.shown(*p.ResumedAt))
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return output.Cut(line, 500)
}
