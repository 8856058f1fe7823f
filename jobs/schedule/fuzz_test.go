package schedule_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// FuzzParseText holds for any text: it is refused, or it gives whole seconds
// that increase, and is read again from what it is written as.
func FuzzParseText(f *testing.F) {
	for _, text := range []string{"*/5 * * * *", "0 0 29 2 */7", "@every 90s", "every:1h", "at:2026-01-31T09:00:00Z",
		"TZ=UTC", ", * * * *", "0 0 30 2 *", "0 0 * * 5-7", "59-59/60 23 31 12 sat", "? ? ? ? ?", "@", ":", "quartz:0"} {
		f.Add(text, int64(1_700_000_000), uint8(0))
	}
	zones := []*time.Location{time.UTC}
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"} {
		zones = append(zones, zone(f, name))
	}
	f.Fuzz(func(t *testing.T, text string, from int64, pick uint8) {
		in := zones[int(pick)%len(zones)]
		s, err := schedule.ParseText(text, in)
		if err != nil {
			return
		}
		last := time.Unix(from, 0)
		for _, due := range s.Upcoming(last, 5) {
			if !due.After(last) || due.Nanosecond() != 0 {
				t.Fatalf("%q in %s: after %s comes %s", text, in, last, due)
			}
			last = due
		}
		again, err := schedule.ParseText(s.String(), in)
		if err != nil || again.Next(time.Unix(from, 0)) != s.Next(time.Unix(from, 0)) {
			t.Fatalf("%q is written as %q and read as %q: %v", text, s, again, err)
		}
	})
}
