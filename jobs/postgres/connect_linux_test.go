package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A replica must notice a server that has vanished, on each kind of connection. The kernel alone
// retransmits data for about 15 minutes before it reports an error.
func TestClientsEndOfConnectionsIsBounded(t *testing.T) {
	t.Parallel()
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
	heartbeat, _ := s.a.heartbeats.takeOpen(session)
	if heartbeat == nil {
		t.Fatal("no idle connection of the heartbeat")
	}
	expectBounded(t, "heartbeats", heartbeat.conn.PgConn().Conn())
	s.a.heartbeats.give(session, heartbeat)

	dialed := make(chan net.Conn, 1)
	dial := s.a.connector.config.ConnConfig.DialFunc
	s.a.connector.config.ConnConfig.DialFunc = func(ctx context.Context,
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

// A pool pings a connection only if it is broken, and then uses another one.
func TestOnlyBrokenConnectionsArePinged(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	other, err := OpenDatabase(t.Context(), DatabaseOptions{URL: s.url, MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, pool := range map[string]*pgxpool.Pool{"pool": s.a.pool.Pool,
		"views": s.a.views.Pool, "jobs": s.a.work.Pool, "another database": other.pool} {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pings := func(idle time.Duration) bool {
			return pool.Config().ShouldPing(t.Context(),
				pgxpool.ShouldPingParams{Conn: conn.Conn(), IdleDuration: idle})
		}
		if pings(time.Hour) {
			t.Errorf("%s: an idle connection is pinged", name)
		}
		s.exec(`SELECT pg_terminate_backend($1::int)`, conn.Conn().PgConn().PID())
		awaitReadable(t, conn.Conn().PgConn().Conn())
		if pings(0) {
			t.Errorf("%s: a connection is pinged that was just in use", name)
		}
		if !pings(time.Hour) {
			t.Errorf("%s: a broken connection is not pinged", name)
		}
		conn.Release()
	}
}

// A connection is silent until its other end sends something or closes it, also beneath TLS.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, end := range map[string]func(server net.Conn) error{
		"sends":  func(server net.Conn) error { _, err := server.Write([]byte("N")); return err },
		"closes": net.Conn.Close,
	} {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		secure := tls.Client(client, &tls.Config{ServerName: "localhost"})
		if !isSilent(client) || !isSilent(secure) {
			t.Errorf("before the other end %s: not silent", name)
		}
		if err := end(server); err != nil {
			t.Fatal(err)
		}
		awaitReadable(t, client)
		if isSilent(client) || isSilent(secure) {
			t.Errorf("when the other end %s: silent", name)
		}
	}
	if client, _ := net.Pipe(); isSilent(client) {
		t.Error("without a socket nothing is known, but it is silent")
	}
}

// pgx may read from a connection in the background, also while it is idle.
func TestSilenceIsKnownDuringARead(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	raw, err := client.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	silent := make(chan bool, 1)
	err = raw.Read(func(uintptr) bool { // until it returns, others wait with their reads
		go func() { silent <- isSilent(client) }()
		select {
		case got := <-silent:
			if !got {
				t.Error("not silent")
			}
		case <-time.After(10 * time.Second):
			t.Error("it waits for the read")
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

// awaitReadable waits until a read from the connection would not block.
func awaitReadable(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	})
	if err := errors.Join(err, conn.SetReadDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
}
