package access

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

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

// fetchAlone asks on a connection of its own.
func fetchAlone(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return accesstest.Fetch(ctx, url)
}

// gate is a handler whose answers wait.
type gate struct {
	entered chan struct{}
	leave   chan struct{}
}

func (g gate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.entered <- struct{}{}
	<-g.leave                          // a test that failed leaves it open: its server is closed, and nobody waits
	_, _ = io.WriteString(w, "done\n") // the client may be gone
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
func limited(t *testing.T) (net.Listener, gate) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := gate{make(chan struct{}), make(chan struct{})}
	listener := Limit(inner, 3)
	server := &http.Server{Handler: Track(g), ConnContext: WithConnection}
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
