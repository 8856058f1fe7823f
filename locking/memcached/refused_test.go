package memcached

import (
	"net"
	"testing"
	"time"
)

// After some error texts, a connection cannot be used any more. It must end before the caller gets
// the reply. Otherwise the caller could send its next write on it, with an unclear outcome.
func TestConnectionEndsBeforeItsCallerKnows(t *testing.T) {
	for range 200 {
		client, server := net.Pipe()
		b := &Backend{timeout: time.Minute}
		b.goroutines.Go(func() {
			defer server.Close()
			request := make([]byte, len("version\r\n"))
			if _, err := server.Read(request); err != nil {
				t.Errorf("request: %v", err)
			}
			if _, err := server.Write([]byte(unauthenticated + "\r\n")); err != nil {
				t.Errorf("reply: %v", err)
			}
		})
		c := b.start(client)
		request := b.newCall(1)
		request.version()
		if err := c.queue(request); err != nil {
			t.Fatal(err)
		}
		c.write()
		for !isClosed(request.done) { // without a pause, to look at once
		}
		if c.ended() == nil {
			t.Fatal("the connection has not ended")
		}
		b.goroutines.Wait()
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
