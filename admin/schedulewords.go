package admin

import (
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxDescribed bounds the descriptions that describedSchedules holds.
const maxDescribed = 20_000

// zonedSchedule is a schedule as the store has it.
type zonedSchedule struct{ text, zone string }

// describedSchedules holds descriptions of schedules, because each page of jobs shows many and a
// schedule always has the same. Parsing a schedule and its zone takes 20 µs.
var describedSchedules = struct {
	sync.Mutex
	words map[zonedSchedule]string
}{words: make(map[zonedSchedule]string)}

// scheduleWords describes a schedule in words. It returns the text itself if this version can't
// parse it, because a newer version may have written it.
func scheduleWords(text, zone string) string {
	of := zonedSchedule{text, zone}
	describedSchedules.Lock()
	words, known := describedSchedules.words[of]
	describedSchedules.Unlock()
	if known {
		return words
	}
	words = of.describe()
	describedSchedules.Lock()
	defer describedSchedules.Unlock()
	if len(describedSchedules.words) >= maxDescribed {
		clear(describedSchedules.words)
	}
	describedSchedules.words[of] = words
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
