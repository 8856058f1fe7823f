//go:build !linux

package systemd

import "time"

// monotonic returns 0: systemd exists on Linux only.
func monotonic() (time.Duration, error) { return 0, nil }
