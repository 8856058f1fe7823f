package lockhistory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now returns nanoseconds of the machine's monotonic clock. All processes of one boot share it, and
// changes of the date do not affect it. Go's own monotonic readings count from the start of each
// process.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("monotonic clock: %v", err)) // every POSIX system has it
	}
	return t.Nano()
}
