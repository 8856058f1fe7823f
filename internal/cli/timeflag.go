package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// timeFlag parses the time of a flag as [schedule.ParseTime] does, in the zone of this machine. It
// returns the zero time if the flag was not given. Of a time that exists twice it takes the first.
func timeFlag(cmd *cobra.Command, name string) (time.Time, error) {
	flag := cmd.Flags().Lookup(name)
	text := flag.Value.String()
	switch {
	case !flag.Changed:
		return time.Time{}, nil
	case text == "": // as in --at "$WHEN" without a variable WHEN
		return time.Time{}, fmt.Errorf("--%s: found nothing, %w", name, schedule.ErrTime)
	}
	written, err := schedule.ParseTime(text, time.Local, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("--%s: %w", name, err)
	}
	return written.Times[0], nil
}
