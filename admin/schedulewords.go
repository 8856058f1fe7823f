package admin

import (
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxDescribed bounds the descriptions that a scheduleWords holds.
const maxDescribed = 20_000

// zonedSchedule is a schedule as the store has it.
type zonedSchedule struct{ text, zone string }

// scheduleWords holds descriptions of schedules, because each page of jobs shows many and a
// schedule always has the same. Parsing a schedule and its zone takes 20 µs. The zero value is
// empty. It may be used concurrently.
type scheduleWords struct {
	mu    sync.Mutex
	known map[zonedSchedule]string
}

// describe describes a schedule in words. It returns the text itself if this version can't parse
// it, because a newer version may have written it.
func (w *scheduleWords) describe(text, zone string) string {
	s := zonedSchedule{text, zone}
	w.mu.Lock()
	words, isKnown := w.known[s]
	w.mu.Unlock()
	if isKnown {
		return words
	}
	words = s.describe()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || len(w.known) >= maxDescribed {
		w.known = make(map[zonedSchedule]string)
	}
	w.known[s] = words
	return words
}

func (s zonedSchedule) describe() string {
	if s.text == "" {
		return schedule.Schedule{}.Describe()
	}
	location, err := time.LoadLocation(s.zone)
	if err != nil {
		return s.text + ", " + s.zone
	}
	parsed, err := schedule.ParseText(s.text, location)
	if err != nil {
		return s.text + ", " + s.zone
	}
	return parsed.Describe()
}
