package schedule

import (
	"sort"
	"time"
)

// longestBack is how far back Prev searches.
const longestBack = 12 * 366 * 24 * time.Hour

// Prev returns the last scheduled time before t that no calendar excludes, or the zero time if
// there is none within twelve years. It calls Next some tens of times.
func (s Schedule) Prev(t time.Time) time.Time {
	before := func(from time.Time) bool {
		scheduledAt := s.Next(from)
		return !scheduledAt.IsZero() && scheduledAt.Before(t)
	}
	back := time.Minute
	for !before(t.Add(-back)) {
		if back == longestBack {
			return time.Time{}
		}
		back = min(2*back, longestBack)
	}
	from := t.Add(-back).Truncate(time.Second)
	seconds := int(back/time.Second) + 1
	last := sort.Search(seconds, func(i int) bool {
		return !before(from.Add(time.Duration(i) * time.Second))
	})
	return s.Next(from.Add(time.Duration(last-1) * time.Second))
}

// ClocksAt describes the effect of a change of the zone's clocks on a scheduled time, "" for none.
func (s Schedule) ClocksAt(scheduledAt time.Time) string {
	l, ok := s.plan().rule.(*local)
	if !ok {
		return ""
	}
	for _, words := range l.change(scheduledAt.Unix()) {
		return words
	}
	return ""
}
