package access

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// halfOpen opens a connection and sends an incomplete request.
func halfOpen(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	return c
}

// fetchAlone sends a request on a new connection.
func fetchAlone(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return accesstest.Fetch(ctx, url)
}

// gate is a handler whose responses wait until the test opens it.
type gate struct {
	entered  chan struct{}
	leave    chan struct{}
	accepted chan string // client addresses of accepted connections
}

func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isProbe(r) && r.Header.Get("X-Slow") == "" {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	g.entered <- struct{}{}
	<-g.leave                          // in a failed test, the server's end returns from here
	_, _ = io.WriteString(w, "done\n") // the client may have closed the connection
}

// await waits until the handler has a request.
func (g gate) await(t *testing.T) {
	t.Helper()
	select {
	case <-g.entered:
	case <-time.After(20 * time.Second):
		t.Fatal("got no request")
	}
}

// limited serves a gate with a limit of three connections.
func limited(t *testing.T) (net.Listener, gate) {
	t.Helper()
	return limitedTo(t, ConnectionLimits{Total: 3})
}

func limitedTo(t *testing.T, limits ConnectionLimits) (net.Listener, gate) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := gate{make(chan struct{}), make(chan struct{}), make(chan string, 1024)}
	listener := Limit(inner, limits)
	server := &http.Server{Handler: Track(g), ConnContext: WithConnection,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				g.accepted <- c.RemoteAddr().String()
			}
		}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener, g
}

func TestNewConnectionReplacesAnIdleOne(t *testing.T) {
	listener, g := limited(t)
	address := listener.Addr().String()
	first := halfOpen(t, address)
	second, third := halfOpen(t, address), halfOpen(t, address)
	answers := make(chan error, 1)
	go func() {
		_, err := fetchAlone("http://" + address + "/")
		answers <- err
	}()
	g.await(t)
	if _, err := io.ReadAll(first); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the first is still open: %v", err)
	}
	// The other requests get their responses, and so does the one in progress, however many
	// connections are opened.
	for _, c := range []net.Conn{second, third} {
		if _, err := io.WriteString(c, "1\r\n\r\n"); err != nil {
			t.Error(err)
		}
		g.await(t)
	}
	close(g.leave)
	for _, c := range []net.Conn{second, third} {
		if response, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil ||
			response.StatusCode != http.StatusOK {
			t.Errorf("an older connection: %v", err)
		}
	}
	if err := <-answers; err != nil {
		t.Errorf("the newcomer: %v", err)
	}
}

func TestActiveRequestsAreNotCutOff(t *testing.T) {
	listener, g := limited(t)
	address := listener.Addr().String()
	var fetches sync.WaitGroup
	for range 3 {
		fetches.Go(func() {
			if body, err := fetchAlone("http://" + address + "/"); err != nil || body != "done\n" {
				t.Errorf("a request in work: %q, %v", body, err)
			}
		})
		g.await(t)
	}
	if body, err := fetchAlone("http://" + address + "/"); err == nil {
		t.Errorf("got the answer %q on a fourth connection, want an error", body)
	}
	close(g.leave)
	fetches.Wait()
	done := make(chan error, 1)
	go func() {
		_, err := fetchAlone("http://" + address + "/")
		done <- err
	}()
	g.await(t)
	if err := <-done; err != nil {
		t.Errorf("after the others: %v", err)
	}
}

// dialFrom opens a connection from an address of loopback.
func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// askOn sends a request on an open connection and returns the response.
func askOn(t *testing.T, c net.Conn, path string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return response
}

func TestProbesAreAnsweredBeyondTheLimit(t *testing.T) {
	listener, g := limitedTo(t, ConnectionLimits{Total: 2, ForProbes: 2})
	address := listener.Addr().String()
	var fetches sync.WaitGroup
	for range 2 {
		fetches.Go(func() {
			if _, err := fetchAlone("http://" + address + "/"); err != nil {
				t.Errorf("a request in work: %v", err)
			}
		})
		g.await(t)
	}
	for _, path := range []string{HealthPath, ReadyPath} {
		if got := askOn(t, dialFrom(t, "127.0.0.1", address), path); got.StatusCode != 200 ||
			!got.Close {
			t.Errorf("%s: %s, closed: %t", path, got.Status, got.Close)
		}
	}
	if got := askOn(t, dialFrom(t, "127.0.0.1", address), "/"); got.StatusCode != 503 ||
		!got.Close || got.Header.Get("Retry-After") == "" {
		t.Errorf("a page: %s, %v", got.Status, got.Header)
	}
	early := dialFrom(t, "127.0.0.1", address)
	for <-g.accepted != early.LocalAddr().String() {
		// If it were accepted later, it would replace a connection whose client reads its response.
	}
	close(g.leave)
	fetches.Wait()
	go func() { <-g.entered }()
	if got := askOn(t, early, "/"); got.StatusCode != 200 || got.Close {
		t.Errorf("a page on an older connection, after the others: %s", got.Status)
	}
}

func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	for name, exempt := range map[string]func(netip.Addr) bool{"limited": nil,
		"exempt": func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.2") }} {
		t.Run(name, func(t *testing.T) {
			listener, _ := limitedTo(t, ConnectionLimits{Total: 4, PerAddress: 2, Exempt: exempt})
			address := listener.Addr().String()
			other := dialFrom(t, "127.0.0.3", address)
			first := dialFrom(t, "127.0.0.2", address)
			second := dialFrom(t, "127.0.0.2", address)
			for _, c := range []net.Conn{other, first, second} {
				if got := askOn(t, c, HealthPath); got.StatusCode != 200 {
					t.Errorf("got status %s, want 200", got.Status)
				}
			}
			third := dialFrom(t, "127.0.0.2", address)
			if got := askOn(t, third, HealthPath); got.StatusCode != 200 {
				t.Errorf("got status %s, want 200", got.Status)
			}
			left := []net.Conn{other, second, third}
			if exempt != nil {
				left = append(left, first)
			} else if _, err := io.ReadAll(first); err != nil &&
				!strings.Contains(err.Error(), "reset") {
				t.Errorf("the first of the address is still open: %v", err)
			}
			for _, c := range left {
				if got := askOn(t, c, HealthPath); got.StatusCode != 200 {
					t.Errorf("got status %s, want 200", got.Status)
				}
			}
		})
	}
}

// TestConnectionOfOtherAddressesIsKept opens many connections from one address beside a connection
// that has been idle for longer.
func TestConnectionOfOtherAddressesIsKept(t *testing.T) {
	listener, _ := limitedTo(t, ConnectionLimits{Total: 3, Kept: 1})
	address := listener.Addr().String()
	other := dialFrom(t, "127.0.0.3", address)
	var burst []net.Conn
	for range 4 {
		c := dialFrom(t, "127.0.0.2", address)
		askOn(t, c, HealthPath)
		burst = append(burst, c)
	}
	for _, c := range append(burst[2:], other) {
		askOn(t, c, HealthPath)
	}
	for _, c := range burst[:2] {
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("an older connection of the burst is still open: %v", err)
		}
	}
	// An address that has no more than Kept loses its connection only to others like it.
	askOn(t, dialFrom(t, "127.0.0.4", address), HealthPath)
	askOn(t, burst[3], HealthPath)
	askOn(t, dialFrom(t, "127.0.0.5", address), HealthPath)
	if _, err := io.ReadAll(other); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection that has been idle longest is still open: %v", err)
	}
}

// TestLittleIsBufferedForAClientThatDoesNotRead writes until the kernel accepts no more.
func TestLittleIsBufferedForAClientThatDoesNotRead(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := Limit(inner, ConnectionLimits{Total: 1})
	t.Cleanup(func() { _ = listener.Close() })
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	served, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	if err := served.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20 // with the receive buffer of the client
	if n, err := served.Write(make([]byte, 16<<20)); n > most ||
		!errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the kernel accepted %d bytes (%v), want at most %d", n, err, most)
	}
}
