package memcached

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A reply that has arrived counts, although the process found its deadline passed first.
func TestReplyAfterTheDeadlineCounts(t *testing.T) {
	const timeout = 500 * time.Millisecond
	for name, test := range map[string]struct {
		late time.Duration
		ok   bool
	}{
		"in time":  {timeout - time.Millisecond, true},
		"late":     {timeout + lastRead - time.Millisecond, true},
		"too late": {timeout + lastRead + time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				b := &Backend{timeout: timeout}
				c := b.start(client)
				b.goroutines.Go(func() {
					line, err := bufio.NewReader(server).ReadString('\n')
					if err != nil || line != "version\r\n" {
						t.Errorf("got %q (%v), want a request", line, err)
					}
					time.Sleep(test.late)
					_, _ = server.Write([]byte("VERSION 1\r\n")) // the client may have closed it
				})
				request := b.newCall(1)
				request.version()
				if err := c.do(t.Context(), request); (err == nil) != test.ok {
					t.Errorf("got %v, want a reply: %t", err, test.ok)
				}
				c.fail(errClosed)
				b.goroutines.Wait()
			})
		})
	}
}

// deadlineConn remembers the last deadlines that were set.
type deadlineConn struct {
	net.Conn
	mu          sync.Mutex
	read, write time.Time
}

func (c *deadlineConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = at
	return c.Conn.SetReadDeadline(at)
}

func (c *deadlineConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = at
	return c.Conn.SetWriteDeadline(at)
}

// An idle connection has no deadline: its timer would wake the process.
func TestIdleConnectionHasNoDeadline(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	b := &Backend{timeout: time.Minute}
	raw := &deadlineConn{Conn: client}
	c := b.start(raw)
	b.goroutines.Go(func() {
		requests := bufio.NewReader(server)
		for range 2 {
			if line, err := requests.ReadString('\n'); err != nil || line != "version\r\n" {
				t.Errorf("got %q (%v), want a request", line, err)
			}
			raw.mu.Lock()
			if raw.read.IsZero() {
				t.Error("a reply has no deadline")
			}
			raw.mu.Unlock()
			if _, err := server.Write([]byte("VERSION 1\r\n")); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		request := b.newCall(1)
		request.version()
		if err := c.do(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		raw.mu.Lock()
		if !raw.read.IsZero() || !raw.write.IsZero() {
			t.Errorf("after the reply, the deadlines are %s and %s, want none", raw.read, raw.write)
		}
		raw.mu.Unlock()
	}
	c.fail(errClosed)
	b.goroutines.Wait()
}
