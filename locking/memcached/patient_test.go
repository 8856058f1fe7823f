package memcached

import (
	"bufio"
	"net"
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
