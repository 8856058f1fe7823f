package memcached

import (
	"errors"
	"net"
	"os"
	"time"
)

// lastRead is how long a read waits after its deadline.
const lastRead = 50 * time.Millisecond

// patientConn is a connection that reads once more after its deadline has passed. A process that
// had no processor for a while may find that the deadline has passed although the reply arrived in
// time. If it gave up then, many busy replicas would take a healthy server for unreachable.
type patientConn struct{ net.Conn }

// Read reads what has arrived. Only the goroutine that reads sets the deadline while a reply is
// missing.
func (c patientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if failed := c.SetReadDeadline(time.Now().Add(lastRead)); failed != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}
