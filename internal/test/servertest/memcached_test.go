package servertest_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

func TestMemcachedRestartKeepsAddressAndLosesKeys(t *testing.T) {
	server := startMemcached(t)
	addr := server.Addr()
	conn := dial(t, addr)
	if got := ask(t, conn, "set k 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Fatalf("set: %q", got)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.Addr() != addr {
		t.Errorf("address was %s, is %s", addr, server.Addr())
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection survived the restart")
	}
	if got := ask(t, dial(t, addr), "get k\r\n"); got != "END" {
		t.Errorf("get after the restart: %q", got)
	}
}

func TestPausedMemcachedDoesNotAnswer(t *testing.T) {
	server := startMemcached(t)
	conn := dial(t, server.Addr())
	ask(t, conn, "version\r\n")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("version\r\n")); err != nil {
		t.Fatal(err)
	}
	if line := readWithin(t, conn, 100*time.Millisecond); line != "" {
		t.Errorf("paused, it answered %q", line)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if line := readWithin(t, conn, 10*time.Second); !strings.HasPrefix(line, "VERSION") {
		t.Errorf("resumed, it answered %q", line)
	}
}

func TestMemcachedStopIsFinal(t *testing.T) {
	server := startMemcached(t)
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if conn, err := net.Dial("tcp", server.Addr()); err == nil {
		conn.Close()
		t.Error("the port still has a listener")
	}
}

func TestMemcachedTakesFlags(t *testing.T) {
	server := startMemcached(t, "-M", "-m", "2")
	conn := dial(t, server.Addr())
	if _, err := conn.Write([]byte("stats settings\r\n")); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "END"; {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "STAT "), " ")
		settings[name] = value
	}
	if settings["maxbytes"] != "2097152" || settings["evictions"] != "off" {
		t.Errorf("maxbytes %q, evictions %q", settings["maxbytes"], settings["evictions"])
	}
}

func TestMemcachedReportsItsError(t *testing.T) {
	skipWithShort(t)
	server, err := servertest.StartMemcached(t.Context(), "--no-such-flag")
	if err == nil {
		server.Stop()
		t.Fatal("start with an unknown flag: got success, want an error")
	}
	if !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("the error does not say what memcached said: %v", err)
	}
}

func startMemcached(t *testing.T, flags ...string) *servertest.Memcached {
	t.Helper()
	skipWithShort(t)
	return servertest.NewMemcached(t, flags...)
}

func skipWithShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server")
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends one request and returns the first line of the reply.
func ask(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	return readWithin(t, conn, 10*time.Second)
}

// readWithin returns the first line that arrives within d, or "".
func readWithin(t *testing.T, conn net.Conn, d time.Duration) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}
