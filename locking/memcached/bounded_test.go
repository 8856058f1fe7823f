package memcached

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sizes is a connection that notes the sizes of the writes.
type sizes struct {
	net.Conn
	mu  sync.Mutex
	all []int
}

func (s *sizes) Write(data []byte) (int, error) {
	s.mu.Lock()
	s.all = append(s.all, len(data))
	s.mu.Unlock()
	return s.Conn.Write(data)
}

// A request takes no further calls when it is large. The other calls follow in the next ones, and
// each call gets its reply.
func TestRequestsAreBounded(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	b, raw := &Backend{timeout: time.Minute}, &sizes{Conn: client}
	c := b.start(raw)
	const valueSize = 40 << 10
	b.goroutines.Go(func() { storeAll(t, server, valueSize) })
	var calls []*call
	for range 5 {
		request := b.newCall(1)
		request.add("key", make([]byte, valueSize), time.Minute)
		if err := c.queue(request); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, request)
	}
	c.write()
	for i, request := range calls {
		<-request.done
		if r := request.reply(0); r == nil || r.kind != replyStored {
			t.Errorf("call %d got %+v", i, r)
		}
	}
	c.fail(errClosed)
	b.goroutines.Wait()
	if len(raw.all) != 3 || slices.Max(raw.all) > sentAtOnce+valueSize {
		t.Errorf("5 calls of 40 KiB in requests of %v bytes, want 2, 2 and 1", raw.all)
	}
}

// storeAll replies to each add until the connection ends.
func storeAll(t *testing.T, server net.Conn, valueSize int) {
	requests := bufio.NewReader(server)
	for {
		line, err := requests.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasPrefix(line, "add key ") {
			t.Errorf("got %q, want an add", line)
		}
		if _, err := io.CopyN(io.Discard, requests, int64(valueSize)+2); err != nil {
			t.Errorf("value: %v", err)
		}
		if _, err := io.WriteString(server, "STORED\r\n"); err != nil {
			t.Errorf("reply: %v", err)
		}
	}
}
