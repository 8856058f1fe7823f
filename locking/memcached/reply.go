package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

const (
	maxReply = 64 << 10 // bytes of a reply to stats; 1.6.18 sends 3 KiB
	maxLine  = 4 << 10
	maxValue = 200 // bytes of a value; longer ones are cut
)

const (
	hint   = "a server that expects TLS or a client's certificate does so too"
	closed = "a connection that it closed; " + hint
)

// ReplyError says that a server replied, but not as memcached does.
type ReplyError struct {
	Command string
	Found   string // what it replied, shortened, or a description
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("its reply to %s is not memcached's: found %s", e.Command, e.Found)
}

// statReader reads replies to stats of at most maxReply bytes in all. It returns
// only the requested values.
type statReader struct {
	lines *bufio.Reader
	limit *io.LimitedReader
}

func newStatReader(from io.Reader) *statReader {
	limit := &io.LimitedReader{R: from, N: maxReply}
	return &statReader{lines: bufio.NewReaderSize(limit, maxLine), limit: limit}
}

// read returns the values in wanted of one reply. Its errors are *AuthErrors,
// *ReplyErrors, or the connection's.
func (r *statReader) read(command string, wanted map[string]bool) (map[string]string, error) {
	values := make(map[string]string, len(wanted))
	for {
		line, err := r.line(command)
		if err != nil {
			return nil, err
		}
		if string(line) == "END" {
			return values, nil
		}
		rest, ok := bytes.CutPrefix(line, []byte("STAT "))
		if string(line) == unauthenticated {
			return nil, &AuthError{Reply: unauthenticated}
		}
		if !ok {
			return nil, &ReplyError{Command: command, Found: strconv.Quote(printable(line))}
		}
		name, value, _ := bytes.Cut(rest, []byte(" "))
		if wanted[string(name)] {
			values[string(name)] = printable(value)
		}
	}
}

// line returns the next line without its end.
func (r *statReader) line(command string) ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	switch {
	case err == nil:
		return bytes.TrimRight(line, "\r\n"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, &ReplyError{Command: command,
			Found: fmt.Sprintf("a line of more than %d bytes", maxLine)}
	case errors.Is(err, io.EOF) && r.limit.N <= 0:
		return nil, &ReplyError{Command: command,
			Found: fmt.Sprintf("more than %d bytes", maxReply)}
	case errors.Is(err, io.EOF):
		return nil, &ReplyError{Command: command, Found: closed}
	}
	return nil, broken(err)
}

// broken adds a hint to the error of a connection that the server broke.
func broken(err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// printable returns a server's reply as text that is safe to show and log.
func printable(said []byte) string {
	if len(said) > maxValue {
		said = said[:maxValue]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(string(said)), "?"))
}
