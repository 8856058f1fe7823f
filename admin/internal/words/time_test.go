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
