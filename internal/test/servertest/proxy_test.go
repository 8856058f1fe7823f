package servertest_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// The tests use a real memcached, which shows whether a request arrived.

func TestProxyForwards(t *testing.T) {
	server := startMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	if got := ask(t, dial(t, proxy.Addr()), "set k 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Errorf("set: %q", got)
	}
	value := strings.Repeat("v", 300_000)
	if got := ask(t, dial(t, proxy.Addr()),
		"set big 0 0 300000\r\n"+value+"\r\n"); got != "STORED" {
		t.Errorf("a large set: %q", got)
	}
}

func TestProxyFates(t *testing.T) {
	tests := []struct {
		name           string
		fate           servertest.Fate
		arrives, stays bool // the request reaches the server; the connection stays open
	}{
		{"drop", servertest.Drop, false, true},
		{"cut", servertest.Cut, false, false},
		{"cut reply", servertest.CutReply, true, false},
		{"lose reply", servertest.LoseReply, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := startMemcached(t)
			proxy := servertest.NewProxy(t, server.Addr())
			proxy.OnRequest(func(request []byte) servertest.Fate {
				if bytes.HasPrefix(request, []byte("set ")) {
					return test.fate
				}
				return servertest.Pass
			})
			conn := dial(t, proxy.Addr())
			if got := ask(t, conn, "version\r\n"); !strings.HasPrefix(got, "VERSION") {
				t.Fatalf("version: %q", got)
			}
			if _, err := conn.Write([]byte("set k 0 0 1\r\nx\r\n")); err != nil {
				t.Fatal(err)
			}
			checkConnection(t, conn, test.stays)
			if arrived := ask(t, dial(t, server.Addr()),
				"get k\r\n") != "END"; arrived != test.arrives {
				t.Errorf("arrived: %v, want %v", arrived, test.arrives)
			}
		})
	}
}

func TestProxyReportsCutReply(t *testing.T) {
	server := startMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if bytes.HasPrefix(request, []byte("set ")) {
			return servertest.CutReply
		}
		return servertest.Pass
	})
	cut := make(chan struct{})
	proxy.OnReplyCut(func() { cut <- struct{}{} })
	conn := dial(t, proxy.Addr())
	ask(t, conn, "version\r\n")
	if _, err := conn.Write([]byte("set k 0 0 1\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Fatal("the callback of OnReplyCut was not called")
	}
	if got := ask(t, dial(t, server.Addr()), "get k\r\n"); got == "END" {
		t.Error("call of OnReplyCut: got it before the request took effect, want it after")
	}
	checkConnection(t, conn, false)
}

// checkConnection checks that no data arrives: the connection is silent or broken.
func checkConnection(t *testing.T, conn net.Conn, stays bool) {
	t.Helper()
	wait := 10 * time.Second
	if stays {
		wait = 200 * time.Millisecond
	}
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 100))
	var timeout interface{ Timeout() bool }
	stayed := errors.As(err, &timeout) && timeout.Timeout()
	if n != 0 || err == nil || stayed != stays {
		t.Errorf("read %d bytes, %v; want the connection to stay: %v", n, err, stays)
	}
}

func TestProxyForwardsHeldRequestAfterClientLeft(t *testing.T) {
	server := startMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	seen, release := make(chan struct{}), make(chan struct{})
	proxy.OnRequest(func([]byte) servertest.Fate {
		close(seen)
		<-release
		return servertest.Pass
	})
	conn := dial(t, proxy.Addr())
	if _, err := conn.Write([]byte("set k 0 0 1\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	<-seen
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	direct := dial(t, server.Addr())
	for deadline := time.Now().Add(10 * time.Second); ask(t, direct,
		"touch k 0\r\n") != "TOUCHED"; {
		if time.Now().After(deadline) {
			t.Fatal("the request never arrived")
		}
	}
}

func TestProxySwitches(t *testing.T) {
	server := startMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	conn := dial(t, proxy.Addr())
	ask(t, conn, "version\r\n")

	muted := conn
	proxy.MuteAll()
	if _, err := muted.Write([]byte("set k 0 0 1\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	checkConnection(t, muted, true)
	conn = dial(t, proxy.Addr())
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got := ask(t, dial(t, proxy.Addr()), "get k\r\n")
		if strings.HasPrefix(got, "VALUE k") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %q, want the value that the muted connection set", got)
		}
	}

	proxy.Delay(50 * time.Millisecond)
	start := time.Now()
	ask(t, conn, "version\r\n")
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("a delayed answer took %v", took)
	}
	proxy.Delay(0)

	proxy.Refuse(true)
	checkRefused(t, proxy.Addr())
	if got := ask(t, conn, "version\r\n"); got == "" {
		t.Error("refusing new connections broke an open one")
	}
	proxy.Refuse(false)
	ask(t, dial(t, proxy.Addr()), "version\r\n")

	proxy.CutAll()
	checkConnection(t, conn, false)
	checkConnection(t, muted, false)
}

func TestProxyWithoutServer(t *testing.T) {
	server := startMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, proxy.Addr())
}

// checkRefused checks that a new connection fails during or after its creation.
func checkRefused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	checkConnection(t, conn, false)
}
