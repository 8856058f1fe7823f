package memcached

import (
	"errors"
	"net"
	"testing"
)

// TestNoReaderStartsAfterClose connects in the moment in which Close has passed the link. Close
// would wait for the reader of the connection without an end.
func TestNoReaderStartsAfterClose(t *testing.T) {
	b, err := New(Options{Servers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	o := &opening{done: make(chan struct{})}
	b.links[0].opened(o, ours, nil)
	<-o.done
	if !errors.Is(o.err, errClosed) || o.conn != nil {
		t.Errorf("got %v, %v, want no connection and errClosed", o.conn, o.err)
	}
}
