package memcached

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/locking"
)

// maxHeader is more than the line before a value has.
const maxHeader = 512

// guard reads along what a connection brings, and refuses a value that is
// larger than any that is stored here: gomemcache makes room for whatever size a
// reply says, four gigabytes for one line of garbage.
type guard struct {
	line  []byte // the beginning of the line that is being read
	value int    // bytes of a value that are still to come
}

// read takes the next bytes of the connection.
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

// valueSize returns how many bytes follow a line, with the line's end behind
// them, or 0 where it is not the header of a value.
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
