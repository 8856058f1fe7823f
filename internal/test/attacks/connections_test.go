package attacks

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var script = regexp.MustCompile(`/static/htmx\.[0-9a-f]+\.js`)

// TestRow01 opens 560 connections that request a large file repeatedly and never read.
func TestRow01(t *testing.T) {
	for _, protocol := range []string{"plain", "TLS"} {
		for _, addresses := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s from %d", protocol, addresses), func(t *testing.T) {
				testConnections(begin(t, 1), protocol, addresses)
			})
		}
	}
}

func testConnections(a *attack, protocol string, addresses int) {
	p := plan{admin: a.guarded(), secure: protocol == "TLS"}
	if p.secure {
		p.admin += ", " + a.tlsKeys()
	}
	g := a.start(p)
	const clients = 560
	burst, times := time.Duration(0), map[string][]time.Duration{}
	probe := func(path string) time.Duration {
		begun := time.Now()
		answer, err := g.try(request{path: path, token: viewerToken, from: "127.0.0.99",
			limit: allowed})
		if err != nil || answer.status != http.StatusOK {
			a.Errorf("%s beside them: %v, %d", path, err, answer.status)
		}
		return time.Since(begun) // with the connection
	}
	file := script.FindString(g.ask(request{path: "/login"}).body)
	if file == "" {
		g.Fatal("the sign-in has no script")
	}
	filled := make(chan int, 1)
	go func() { filled <- g.fill(file, clients, addresses) }()
	var stuck int
	for connecting := true; connecting; {
		burst = max(burst, probe("/healthz"))
		select {
		case stuck = <-filled:
			connecting = false
		default:
			time.Sleep(pollEvery)
		}
	}
	for range 5 {
		for _, path := range []string{"/healthz", "/readyz", "/api/v1/jobs"} {
			times[path] = append(times[path], probe(path))
		}
	}
	slowest := map[string]time.Duration{}
	for path, all := range times {
		slices.Sort(all)
		slowest[path] = all[len(all)-1]
		// A busy machine may pause, but not during most probes.
		if median := all[len(all)/2]; median > time.Second && path != "/api/v1/jobs" {
			a.Errorf("half of the probes of %s took more than a second: %s", path, all)
		}
	}
	a.report("%d connections from %d addresses that never read (%d of them stuck), %s: "+
		"while they connect, /healthz answered in %d ms at most; then /healthz in %d ms, "+
		"/readyz in %d ms, the API in %d ms", clients, addresses, stuck, protocol,
		burst.Milliseconds(), slowest["/healthz"].Milliseconds(),
		slowest["/readyz"].Milliseconds(), slowest["/api/v1/jobs"].Milliseconds())
}

// fill opens connections that ask for a file and read nothing. It returns how many of them cannot
// send more, because the replica waits for them to read.
func (g *target) fill(file string, clients, addresses int) (stuck int) {
	g.attack.Helper()
	sent := strings.Repeat("GET "+file+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 20_000)
	places := make(chan struct{}, 32) // for handshakes
	results := make(chan error, clients)
	for i := range clients {
		places <- struct{}{}
		go func() {
			c, err := g.connect(net.IPv4(127, 0, 0, byte(10+i%addresses)))
			<-places
			if err == nil {
				_ = c.SetDeadline(time.Now().Add(3 * time.Second)) // an error would show in Write
				_, err = io.WriteString(c, sent)
			}
			results <- err
		}()
	}
	for range clients {
		if errors.Is(<-results, os.ErrDeadlineExceeded) {
			stuck++
		}
	}
	if stuck < 200 {
		g.Errorf("%d connections are stuck, so the attack shows nothing", stuck)
	}
	return stuck
}

// connect opens a connection with small buffers, which is closed at the end of the attack.
func (g *target) connect(from net.IP) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: from},
		Control: func(_, _ string, c syscall.RawConn) error {
			var receiving, sending error
			return errors.Join(c.Control(func(fd uintptr) {
				receiving = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF,
					4096)
				sending = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF,
					4096)
			}), receiving, sending)
		}}
	scheme, address, _ := strings.Cut(g.URL, "://")
	plain, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() { _ = plain.Close() })
	if scheme == "http" {
		return plain, nil
	}
	_ = plain.SetDeadline(time.Now().Add(time.Minute)) // an error would show in the handshake
	secure := tls.Client(plain, &tls.Config{InsecureSkipVerify: true,
		NextProtos: []string{"http/1.1"}})
	return secure, secure.Handshake()
}
