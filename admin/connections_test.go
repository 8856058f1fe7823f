package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// serve runs a server until the test ends, and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return s.Addr()
}

// halfOpen opens a connection and sends the beginning of a request.
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

// TestSlowRequestsKeepNobodyOut has 1,000 requests stay half open, before their
// headers end or in their bodies, from one address or from many. Each normal
// request beside them is given a second.
func TestSlowRequestsKeepNobodyOut(t *testing.T) {
	for name, sent := range map[string]string{
		"nothing": "", "headers": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"bodies": "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
			"60000\r\n\r\n{\"reason\": \"",
		"chunks": "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nus",
	} {
		for _, addresses := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s from %d", name, addresses), func(t *testing.T) {
				o, _ := withControl(calm())
				server := newServer(t, o)
				// only newcomers take their places
				server.timeouts = clientTimeouts{time.Hour, time.Hour}
				address := serve(t, server)
				for i := range maxConnections * 5 / 4 {
					from := &net.Dialer{LocalAddr: &net.TCPAddr{
						IP: net.IPv4(127, 0, 0, byte(1+i%addresses))}}
					c, err := from.Dial("tcp", address)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = c.Close() })
					if _, err := io.WriteString(c, sent); err != nil &&
						!strings.Contains(err.Error(), "reset") &&
						!strings.Contains(err.Error(), "broken pipe") {
						t.Fatal(err) // the server may have closed it already
					}
				}
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					body, err := fetchWithin(ctx, "http://"+address+"/api/v1/replicas")
					cancel()
					if err != nil || !strings.Contains(body, "replica-3") {
						t.Errorf("a normal request beside them: %v", err)
					}
				}
			})
		}
	}
}

// fetchAlone asks on a connection of its own.
func fetchAlone(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return fetchWithin(ctx, url)
}

func fetchWithin(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// gate is a handler whose answers wait.
type gate struct {
	entered chan struct{}
	leave   chan struct{}
}

func (g gate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.entered <- struct{}{}
	<-g.leave // a test that failed leaves it open: its server is closed, and nobody waits
	writePlain(w, http.StatusOK, "done")
}

// await waits for a request to come in.
func (g gate) await(t *testing.T) {
	t.Helper()
	select {
	case <-g.entered:
	case <-time.After(20 * time.Second):
		t.Fatal("no request came in")
	}
}

// limited serves a gate on at most three connections.
func limited(t *testing.T) (*connections, gate) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := gate{make(chan struct{}), make(chan struct{})}
	listener := limitConnections(inner, 3)
	server := &http.Server{Handler: trackRequests(g), ConnContext: withConnection}
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

func TestNewcomerTakesThePlaceOfTheIdle(t *testing.T) {
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
	// The others go on, and so does the one that is answered, however many come.
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

func TestRequestsInWorkAreNotCutOff(t *testing.T) {
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
	if _, err := fetchAlone("http://" + address + "/"); err == nil {
		t.Error("a fourth found a place")
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

// pipes is a listener in memory, so that time can be the test's.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.accepted <- theirs
	return ours
}

// TestSlowClientsAreCutOff holds each of the server's times, to the second.
func TestSlowClientsAreCutOff(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		want       time.Duration
	}{
		{"nothing", "", readHeaderTimeout},
		{"half a header", "GET / HTTP/1.1\r\nHost: loc", readHeaderTimeout},
		{"half a body", "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nuser", readTimeout},
		{"nothing more", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", idleTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := calm()
				o.Users = []User{user(t, "anna", "x", Viewer)}
				server, listener := newServer(t, o), newPipes()
				server.listener = listener
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- server.Run(ctx) }()
				client := listener.dial()
				start := time.Now()
				if _, err := io.WriteString(client, c.sent); err != nil {
					t.Error(err)
				}
				if _, err := io.Copy(io.Discard, client); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took < c.want || took > c.want+time.Second {
					t.Errorf("cut off after %s, want %s", took, c.want)
				}
				stop()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	address := serve(t, newServer(t, calm()))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://%s/", address), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", maxHeaderBytes+8<<10))
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers of more than %d bytes: %s", maxHeaderBytes, response.Status)
	}
}
