package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
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

// TestSlowRequestsDoNotBlockOthers has 1,000 requests stay half open, before their
// headers end or in their bodies, from one address or from many. Each normal
// request beside them is given a second.
func TestSlowRequestsDoNotBlockOthers(t *testing.T) {
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
				for i := range access.MaxConnections * 5 / 4 {
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
					body, err := accesstest.Fetch(ctx, "http://"+address+"/api/v1/replicas")
					cancel()
					if err != nil || !strings.Contains(body, "replica-3") {
						t.Errorf("a normal request beside them: %v", err)
					}
				}
			})
		}
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
