package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged bounds how long sent data may stay unacknowledged over TCP. The kernel sends
// no keepalives while such data exists.
func boundUnacknowledged(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(tcpUserTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
