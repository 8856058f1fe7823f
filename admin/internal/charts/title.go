package charts

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func severalTitle(b *RunBar) string {
	return fmt.Sprintf("%s runs: %s, from %s to %s. Select to zoom in.", words.Count(b.runs),
		strings.Join(words.CountsByState(b.states), ", "), words.UTC(b.begin), words.UTC(b.end))
}

func runTitle(s storage.RunInterval, begin, end time.Time) string {
	text := fmt.Sprintf("%s %s", words.Cut(s.Job, 100), words.State(s.State))
	length := storage.Executed(begin, end, s.RetryWaits)
	switch {
	case s.State.Final():
		text += fmt.Sprintf(" after %s, from %s to %s", words.Took(length), words.UTC(begin),
			words.UTC(end))
	case s.State == jobs.Waiting:
		text += fmt.Sprintf(" for another attempt, ran %s since %s", words.Took(length),
			words.UTC(begin))
	default:
		text += fmt.Sprintf(" for %s, since %s", words.Took(length), words.UTC(begin))
	}
	if between := end.Sub(begin) - length; between > 0 {
		text += fmt.Sprintf(", plus %s between attempts", words.Took(between))
	}
	text += " on " + words.Cut(s.Replica, 60)
	if words := words.WhyOf(s); words != "" {
		text += ": " + words
	}
	return text
}

func waitTitle(s storage.RunInterval, length time.Duration) string {
	text := fmt.Sprintf("%s waited %s, from %s", words.Cut(s.Job, 100), words.Took(length),
		words.UTC(s.CreatedAt))
	if s.State == jobs.Waiting {
		text = fmt.Sprintf("%s waits for %s, since %s", words.Cut(s.Job, 100), words.Took(length),
			words.UTC(s.CreatedAt))
	}
	if s.StartedAt == nil {
		if words := words.WhyOf(s); words != "" {
			text += ": " + words
		}
	}
	return text
}

func retryWaitTitle(s storage.RunInterval, begin, end time.Time) string {
	return fmt.Sprintf("%s waited %s between attempts, from %s",
		words.Cut(s.Job, 100), words.Took(end.Sub(begin)), words.UTC(begin))
}

// RunWords describes how long a run waited and ran, and why.
func RunWords(s storage.RunInterval, now time.Time) string {
	end := now
	switch {
	case s.FinishedAt != nil:
		end = *s.FinishedAt
	case s.State.Final():
		end = s.CreatedAt
	}
	waited := end
	if s.StartedAt != nil {
		waited = *s.StartedAt
	}
	var parts []string
	if length := waited.Sub(s.CreatedAt); length >= time.Second {
		parts = append(parts, "waited "+words.Took(length))
	}
	if s.StartedAt != nil {
		length := storage.Executed(waited, end, s.RetryWaits)
		parts = append(parts, "ran "+words.Took(length))
		if between := end.Sub(waited) - length; between > 0 {
			parts = append(parts, "waited "+words.Took(between)+" between attempts")
		}
	}
	if words := words.WhyOf(s); words != "" {
		parts = append(parts, words)
	}
	return strings.Join(parts, ", ")
}
