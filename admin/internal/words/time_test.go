package words

import (
	"testing"
	"time"
)

// TestTimeInAZone formats a time that is today in one zone and tomorrow in another.
func TestTimeInAZone(t *testing.T) {
	now := time.Date(2026, 3, 14, 20, 0, 0, 0, time.UTC)
	at, err := NewTime(now, now.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]string{"UTC": "22:00:00", "Europe/Berlin": "23:00:00",
		"Europe/Helsinki": "2026-03-15 00:00:00", "Asia/Tokyo": "07:00:00", "Mars/Olympus": ""} {
		if got := at.In(zone); got != want {
			t.Errorf("%s: got %q, want %q", zone, got, want)
		}
	}
}

// TestZonedToUTC converts times with the abbreviations of a zone, also where its clocks change, and
// leaves those of other zones alone.
func TestZonedToUTC(t *testing.T) {
	for text, want := range map[[2]string]string{
		{"Europe/Berlin", "at 2026-03-12 02:30:00 CET, and 2026-07-01 02:30:00 CEST"}: "at " +
			"2026-03-12 01:30:00 UTC, and 2026-07-01 00:30:00 UTC",
		{"Europe/Berlin", "2026-10-25 02:30:00 CEST or 2026-10-25 02:30:00 CET"}: "" +
			"2026-10-25 00:30:00 UTC or 2026-10-25 01:30:00 UTC",
		{"America/Sao_Paulo", "due 2026-03-12 02:30:00 -03."}:   "due 2026-03-12 05:30:00 UTC.",
		{"Europe/Berlin", "2026-03-12 02:30:00 EST"}:            "2026-03-12 02:30:00 EST",
		{"Europe/Berlin", "2026-03-12 02:30:00 UTC"}:            "2026-03-12 02:30:00 UTC",
		{"UTC", "2026-03-12 02:30:00 UTC"}:                      "2026-03-12 02:30:00 UTC",
		{"Europe/Berlin", "2026-03-29 02:30:00 does not exist"}: "2026-03-29 02:30:00 does not exist",
	} {
		zone, err := time.LoadLocation(text[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := ZonedToUTC(text[1], zone); got != want {
			t.Errorf("%q in %s reads %q, want %q", text[1], text[0], got, want)
		}
	}
}
