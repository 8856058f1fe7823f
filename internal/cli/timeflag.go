package cli

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// timeFlag parses the time of a flag as [schedule.ParseTime] does, in the zone of this machine. It
// returns the zero time for "". Of a time that exists twice it takes the first.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	written, err := schedule.ParseTime(text, time.Local, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("--%s: %w", name, err)
	}
	return written.Times[0], nil
}
