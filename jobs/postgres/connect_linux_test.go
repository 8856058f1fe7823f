package postgres

import (
	"context"
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A replica must notice a server that has vanished, on each kind of connection. The kernel alone
// retransmits data for about 15 minutes before it reports an error.
func TestClientsEndOfConnectionsIsBounded(t *testing.T) {
	s := newHarness(t)
	for name, pool := range map[string]*dbPool{"pool": s.a.pool, "views": s.a.views,
		"jobs": s.a.work} {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expectBounded(t, name, conn.Conn().PgConn().Conn())
		conn.Release()
	}
	session := s.session(s.a, "a")
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Fatal(err)
	}
	heartbeat := s.a.heartbeats.takeOpen(session)
	if heartbeat == nil {
		t.Fatal("no idle connection of the heartbeat")
	}
	expectBounded(t, "heartbeats", heartbeat.conn.PgConn().Conn())
	s.a.heartbeats.give(session, heartbeat)

	dialed := make(chan net.Conn, 1)
	dial := s.a.listener.config.ConnConfig.DialFunc
	s.a.listener.config.ConnConfig.DialFunc = func(ctx context.Context,
		network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			dialed <- conn
		}
		return conn, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.a.Listen(ctx, func() {
		expectBounded(t, "listener", <-dialed)
		cancel()
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// expectBounded compares the kernel's settings of a connection.
func expectBounded(t *testing.T, name string, conn net.Conn) {
	t.Helper()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%s: connection is %T, want TCP", name, conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []struct {
		name              string
		level, code, want int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 20_000},
	} {
		var got int
		var read error
		err := raw.Control(func(fd uintptr) {
			got, read = unix.GetsockoptInt(int(fd), option.level, option.code)
		})
		if err := errors.Join(err, read); err != nil || got != option.want {
			t.Errorf("%s: %s is %d, %v, want %d", name, option.name, got, err, option.want)
		}
	}
}
