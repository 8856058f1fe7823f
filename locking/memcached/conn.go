package memcached

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
)

// conn is a connection on which the calls of many callers are in flight. If no other caller is
// writing, a caller writes the queued calls in one request, up to a limit. A goroutine writes the
// calls that are left, and those that came meanwhile. Another one reads the replies, which have the
// order of the calls. So a caller that has given up leaves its place in the order, and the calls
// behind it get their own replies.
//
// The connection ends with the first error. It also ends if a reply does not arrive within the
// timeout, because all calls behind it wait too.
type conn struct {
	net.Conn
	id     uint64 // differs in all connections of a Backend
	owner  *Backend
	reader *bufio.Reader

	mu      sync.Mutex
	queued  []*call // not sent
	writing bool    // a goroutine writes
	flying  []*call // sent, or being sent; the oldest first
	shared  bool    // the last request had calls of several callers
	err     error   // why the connection has ended

	buffer []byte // used by the goroutine that writes
}

const readBuffer = 16 << 10

// start returns a connection on raw whose reader runs.
func (b *Backend) start(raw net.Conn) *conn {
	patient := patientConn{raw}
	c := &conn{Conn: patient, id: b.ids.Add(1), owner: b,
		reader: bufio.NewReaderSize(patient, readBuffer)}
	b.goroutines.Go(c.read)
	return c
}

// requestError says why a request has no reply.
type requestError struct {
	sent  bool // it may have taken effect
	broke bool // the connection ended; otherwise its caller gave up
	err   error
}

// Error returns the text of the cause.
func (e *requestError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *requestError) Unwrap() error { return e.err }

// do sends the call and waits for its replies. It returns nil if all have arrived, and otherwise a
// *requestError. The replies that arrived are then valid only if the request was not abandoned:
// see call.reply.
func (c *conn) do(ctx context.Context, request *call) error {
	if err := c.queue(request); err != nil {
		return &requestError{broke: true, err: err}
	}
	c.write()
	select {
	case <-request.done:
		return request.err
	case <-ctx.Done():
		request.abandoned = true
		return &requestError{sent: !c.withdraw(request), err: context.Cause(ctx)}
	}
}

// queue adds a call to those to send. It returns an error if the connection has ended.
func (c *conn) queue(request *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.queued = append(c.queued, request)
	}
	return c.err
}

// withdraw removes a call that was not sent, and reports whether there was one.
func (c *conn) withdraw(request *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.queued {
		if other == request {
			c.queued = append(c.queued[:i], c.queued[i+1:]...)
			return true
		}
	}
	return false
}

// write sends queued calls unless another goroutine does so. It sends one request. Further calls
// are sent by a goroutine, so that no caller has to send for others forever.
func (c *conn) write() {
	c.mu.Lock()
	mine := !c.writing && len(c.queued) > 0
	c.writing = c.writing || mine
	busy := c.shared || len(c.flying) > 0
	c.mu.Unlock()
	if !mine {
		return
	}
	if busy {
		runtime.Gosched() // callers that are ready to run queue their calls first
	}
	c.send()
	c.mu.Lock()
	defer c.mu.Unlock()
	// The reader is counted until err is set, so this does not race with the wait for all.
	if c.writing = len(c.queued) > 0 && c.err == nil; c.writing {
		c.owner.goroutines.Go(c.writeAll)
	}
}

// writeAll sends calls until none is queued.
func (c *conn) writeAll() {
	for again := true; again; {
		c.send()
		c.mu.Lock()
		again = len(c.queued) > 0 && c.err == nil
		c.writing = again
		c.mu.Unlock()
	}
}

// send sends the queued calls in one request.
func (c *conn) send() {
	now := time.Now()
	if !c.board(now) {
		return
	}
	err := c.SetWriteDeadline(now.Add(c.owner.timeout))
	if err == nil {
		_, err = c.Conn.Write(c.buffer)
	}
	if err == nil {
		err = c.SetWriteDeadline(time.Time{}) // its timer would wake an idle process
	}
	if err != nil {
		c.fail(err)
	}
	if cap(c.buffer) > maxBuffer {
		c.buffer = nil
	}
}

// board moves queued calls into flight and fills the buffer with them, up to about sentAtOnce. It
// returns false if there is nothing to send.
func (c *conn) board(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.queued) == 0 {
		return false
	}
	c.buffer = c.buffer[:0]
	n := 0
	for ; n < len(c.queued) && len(c.buffer) < sentAtOnce; n++ {
		c.queued[n].sent = now
		c.buffer = c.owner.moveText(c.buffer, c.queued[n])
	}
	c.shared = n > 1
	if len(c.flying) == 0 {
		c.limit(now)
	}
	c.flying = append(c.flying, c.queued[:n]...)
	c.queued = slices.Delete(c.queued, 0, n)
	return true
}

const (
	// sentAtOnce is the size at which a request takes no further calls. The server answers the
	// first of them while the next request is written.
	sentAtOnce = 64 << 10
	// maxBuffer limits the memory that an idle connection keeps.
	maxBuffer = 256 << 10
)

// limit sets the deadline of the next reply to a request that was sent then. The caller has locked
// mu. If the deadline cannot be set, the connection is closed, and read fails.
func (c *conn) limit(sent time.Time) { _ = c.SetReadDeadline(sent.Add(c.owner.timeout)) }

// read reads replies until the connection ends.
func (c *conn) read() {
	for {
		if err := c.readReply(); err != nil {
			c.end(err)
			return
		}
	}
}

// readReply reads one line, with the value behind it, for the oldest call.
func (c *conn) readReply() error {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return lineError(err)
	}
	line = trimLine(line)
	c.mu.Lock()
	var oldest *call
	if len(c.flying) > 0 {
		oldest = c.flying[0]
	}
	c.mu.Unlock()
	if oldest == nil {
		return unexpected(line)
	}
	r := &oldest.replies[oldest.got]
	size, done, err := r.read(line)
	if err != nil {
		return err
	}
	if !done {
		return c.readValue(r.items, size)
	}
	if r.kind == replyRefused && !isOrderly(r.err) {
		err = r.err
		c.fail(err) // before its caller can send the next request
	}
	if oldest.got++; oldest.complete() {
		c.finish(oldest)
	}
	return err
}

func lineError(err error) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return &ReplyError{Command: "a request",
			Found: fmt.Sprintf("a line of more than %d bytes", readBuffer)}
	case errors.Is(err, io.EOF):
		return &ReplyError{Command: "a request", Found: closed}
	}
	return broken(err)
}

// readValue reads the value of the last item of the reply.
func (c *conn) readValue(r *items, size int) error {
	it := &r.found[len(r.found)-1]
	if want := r.wanted(); len(want) == size && size+len("\r\n") <= readBuffer {
		data, err := c.reader.Peek(size + len("\r\n"))
		if err != nil {
			return lineError(err)
		}
		if value, ok := bytes.CutSuffix(data, []byte("\r\n")); ok && bytes.Equal(value, want) {
			it.value = want
			_, err := c.reader.Discard(len(data))
			return err
		}
	}
	data := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.reader, data); err != nil {
		return lineError(err)
	}
	if string(data[size:]) != "\r\n" {
		return &ReplyError{Command: "a request", Found: "a value that is longer than announced"}
	}
	it.value = data[:size:size]
	return nil
}

// finish ends the oldest call. The next one has its own deadline.
func (c *conn) finish(oldest *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying[0] = nil
	c.flying = c.flying[1:]
	switch {
	case len(c.flying) == 0:
		_ = c.SetReadDeadline(time.Time{}) // see limit
	case c.flying[0].sent != oldest.sent:
		c.limit(c.flying[0].sent)
	}
	close(oldest.done)
}

// fail makes the connection end with this error. The reader then ends its calls.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	_ = c.Close() // the first error is the cause
}

// end ends the connection and all its calls. Only the reader may call it, because it writes their
// replies.
func (c *conn) end(err error) {
	c.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, request := range c.flying {
		request.err = &requestError{sent: true, broke: true, err: c.err}
		close(request.done)
	}
	for _, request := range c.queued {
		request.err = &requestError{broke: true, err: c.err}
		close(request.done)
	}
	c.flying, c.queued = nil, nil
}

// ended returns why the connection has ended, or nil.
func (c *conn) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func trimLine(line []byte) []byte {
	n := len(line) - 1
	if n > 0 && line[n-1] == '\r' {
		n--
	}
	return line[:n]
}
