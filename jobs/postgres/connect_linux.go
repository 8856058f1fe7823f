package postgres

import (
	"crypto/tls"
	"errors"
	"net"
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

// isSilent reports that the other end of an idle connection has sent nothing and has not closed it,
// as far as the kernel knows. It takes one system call.
func isSilent(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	// Not raw.Read: it waits for other reads to end, and pgx may leave one that waits for data.
	err = raw.Control(func(fd uintptr) {
		_, _, peeked = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err == nil && errors.Is(peeked, unix.EAGAIN)
}
