package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the monotonic clock that systemd compares with its own.
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}
