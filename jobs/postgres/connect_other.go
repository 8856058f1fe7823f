//go:build !linux

package postgres

import "syscall"

// boundUnacknowledged does nothing: the kernel's own bound applies.
func boundUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
