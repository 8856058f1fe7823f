// Package durations formats durations for texts that people also write, such as configurations.
package durations

import (
	"strings"
	"time"
)

// Short returns the duration in Go's notation without zero units at the end: 1h, not 1h0m0s.
// [time.ParseDuration] parses the result.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
