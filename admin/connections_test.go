package admin

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
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
	"github.com/holdfast-dev/holdfast/internal/test/soak"
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

// TestSlowRequestsDoNotBlockOthers keeps 1,000 requests half open, before the end of their headers
// or in their bodies, from one address or from many. A normal request must take at most a second
// meanwhile.
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
				if addresses == 1 == (name == "bodies" || name == "chunks") {
					soak.Only(t) // half of the cases are enough without a soak
				}
				o, _ := withControl(calm())
				server := newServer(t, o)
				// No timeout ends a connection in this test. Only new connections replace old ones.
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
						t.Fatal(err) // the server may have closed the connection already
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

// pipes is a listener in memory. A synctest bubble can use it, unlike a listener on a socket.
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

func (p *pipes) dial() net.Conn { return p.dialFrom("192.0.2.1") }

func (p *pipes) dialFrom(address string) net.Conn {
	ours, theirs := net.Pipe()
	p.accepted <- pipe{theirs, address}
	return ours
}

// pipe is a connection with the address of its client.
type pipe struct {
	net.Conn
	address string
}

func (p pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.address), Port: 4000} }

// TestClientsThatDoNotReadDoNotBlockOthers opens as many connections as allowed, from clients that
// request a file repeatedly and read no response. TLS handshakes take most of the test's time, so
// without a soak it has three of the six cases.
func TestClientsThatDoNotReadDoNotBlockOthers(t *testing.T) {
	// Each kind of connection has one case without a soak: from this many addresses.
	quick := map[string]int{"plain": 1, "TLS": 100, "HTTP/2": 1}
	pair := accesstest.NewPair(t, 1)
	files := accesstest.NewPairFiles(t, pair)
	const file = "/static/htmx.0123456789abcdef.js"
	pipelined := strings.Repeat("GET "+file+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 20)
	secure := func(c net.Conn, protocol string) net.Conn {
		// In TLS 1.3 the client must read after the handshake.
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
			NextProtos: []string{protocol}})
	}
	for name, attack := range map[string]func(c net.Conn) error{
		"plain": func(c net.Conn) error {
			_, err := io.WriteString(c, pipelined)
			return err
		},
		"TLS": func(c net.Conn) error {
			_, err := io.WriteString(secure(c, "http/1.1"), pipelined)
			return err
		},
		"HTTP/2": func(c net.Conn) error {
			client := secure(c, "h2")
			if _, err := client.Write(streamsWithoutWindow(file)); err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, client) }() // sends settings and no body
			return nil
		},
	} {
		for _, addresses := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s from %d", name, addresses), func(t *testing.T) {
				if quick[name] != addresses {
					soak.Only(t)
				}
				synctest.Test(t, func(t *testing.T) {
					o := calm()
					o.Listen = "127.0.0.1:0"
					if name != "plain" {
						o.Certificate = &Certificate{CertFile: files.CertFile,
							KeyFile: files.KeyFile}
					}
					_, listener, stop := piped(t, o)
					defer stop()
					for i := range access.MaxConnections {
						c := listener.dialFrom(fmt.Sprintf("198.51.100.%d", i%addresses))
						if err := attack(c); err != nil {
							t.Fatal(err)
						}
					}
					synctest.Wait()
					for _, path := range []string{"/healthz", "/readyz", "/api/v1/replicas", "/"} {
						c, start := listener.dial(), time.Now()
						if o.Certificate != nil {
							c = secure(c, "http/1.1")
						}
						_ = c.SetDeadline(start.Add(time.Second))
						_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+
							"Connection: close\r\n\r\n")
						reply, err := http.ReadResponse(bufio.NewReader(c), nil)
						if err != nil || reply.StatusCode != http.StatusOK {
							t.Errorf("%s beside them, after %s: %v, %v", path, time.Since(start),
								reply, err)
						}
						_ = c.Close()
					}
				})
			})
		}
	}
}

// streamsWithoutWindow requests a file several times over HTTP/2 with a flow-control window of
// zero, so that the server may send nothing.
func streamsWithoutWindow(file string) []byte {
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		header := []byte{0, 0, byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(header, stream), payload...)
	}
	const settings, headers, initialWindow, endHeadersAndStream = 4, 1, 4, 5
	sent := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	sent = append(sent, frame(settings, 0, 0, []byte{0, initialWindow, 0, 0, 0, 0})...)
	fields := []byte{0x82, 0x87, 0x04, byte(len(file))} // method GET, scheme https and a path
	fields = append(fields, file...)
	fields = append(fields, 0x01, byte(len("localhost")))
	fields = append(fields, "localhost"...)
	for i := range uint32(4) {
		sent = append(sent, frame(headers, endHeadersAndStream, 2*i+1, fields)...)
	}
	return sent
}

// TestSlowClientsAreCutOff checks each timeout of the server, to the second.
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
