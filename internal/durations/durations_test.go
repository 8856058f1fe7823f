package durations

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                "0s",
		250 * time.Millisecond:           "250ms",
		10 * time.Second:                 "10s",
		time.Minute:                      "1m",
		10 * time.Minute:                 "10m",
		90 * time.Second:                 "1m30s",
		time.Hour:                        "1h",
		-time.Hour:                       "-1h",
		100 * time.Hour:                  "100h",
		90 * time.Minute:                 "1h30m",
		time.Hour + 10*time.Second:       "1h0m10s",
		time.Hour + 100*time.Millisecond: "1h0m0.1s",
	} {
		got := Short(d)
		if got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
		if parsed, err := time.ParseDuration(got); err != nil || parsed != d {
			t.Errorf("%s is parsed as %s, %v, want %s", got, parsed, err, d)
		}
	}
}
