package lockhistory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now returns nanoseconds of the machine's monotonic clock, which all processes
// of one boot share: their times can be compared, whatever befalls the date.
// Go's own monotonic readings count from each process's start.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("monotonic clock: %v", err)) // no POSIX system lacks it
	}
	return t.Nano()
}
