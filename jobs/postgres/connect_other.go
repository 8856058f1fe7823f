//go:build !linux

package postgres

import (
	"net"
	"syscall"
)

// boundUnacknowledged does nothing: the kernel's own bound applies.
func boundUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }

// isSilent reports nothing: each connection that was idle is pinged.
func isSilent(net.Conn) bool { return false }
