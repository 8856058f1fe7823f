package memcached

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/locking"
)

// maxHeader is larger than any line before a value.
const maxHeader = 512

// guard parses what a connection receives, and refuses a value that is larger than
// any stored here. gomemcache allocates whatever size a reply names, up to four
// gigabytes for one invalid line.
type guard struct {
	line  []byte // the beginning of the current line
	value int    // bytes of the current value that are still to come
}

// read parses the next bytes of the connection.
func (g *guard) read(data []byte) error {
	for len(data) > 0 {
		if g.value > 0 {
			n := min(g.value, len(data))
			g.value, data = g.value-n, data[n:]
			continue
		}
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		g.line = append(g.line, data[:min(end, maxHeader-len(g.line))]...)
		if data[end-1] == '\n' {
			size := valueSize(g.line)
			if size > locking.MaxValueBytes+len("\r\n") {
				return fmt.Errorf("a value of %d bytes was announced, expected at most %d", size,
					locking.MaxValueBytes)
			}
			g.value, g.line = size, g.line[:0]
		}
		data = data[end:]
	}
	return nil
}

// valueSize returns how many bytes follow a line, with the end of line after them.
// It returns 0 if the line is not the header of a value.
func valueSize(line []byte) int {
	fields := bytes.Fields(line)
	if len(fields) < 4 || string(fields[0]) != "VALUE" {
		return 0
	}
	size, err := strconv.ParseUint(string(fields[3]), 10, 32)
	if err != nil {
		return 0 // gomemcache refuses it
	}
	return int(size) + len("\r\n")
}
