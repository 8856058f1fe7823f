package memcached

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/locking"
)

func TestGuardCountsOnlyHeaders(t *testing.T) {
	value := strings.Repeat("x", locking.MaxValueBytes)
	tests := map[string]struct {
		reply string
		valid bool
	}{
		"the largest value":       {"VALUE k 0 1004096 1\r\n" + value + "\r\nEND\r\n", true},
		"one byte more":           {"VALUE k 0 1004097 1\r\n", false},
		"without a version":       {"VALUE k 0 4000000000\r\n", false},
		"after another":           {"VALUE k 0 1 1\r\nx\r\nVALUE k 0 4000000000 1\r\n", false},
		"within a value":          {"VALUE k 0 28 1\r\nVALUE k 0 4000000000 1\r\nabcd\r\nEND\r\n", true},
		"after an empty value":    {"VALUE k 0 0 1\r\n\r\nVALUE k 0 4000000000 1\r\n", false},
		"after many lines":        {strings.Repeat("STORED\r\n", 1000) + "VALUE k 0 4000000000 1\r\n", false},
		"after a long line":       {strings.Repeat("y", 10_000) + "\r\nVALUE k 0 4000000000 1\r\n", false},
		"a size that is no size":  {"VALUE k 0 99999999999999999999 1\r\n", true},
		"other answers":           {"STORED\r\nNOT_STORED\r\nEND\r\nSERVER_ERROR VALUE k 0 4000000000\r\n", true},
		"a line that has no name": {"VALUE  4000000000\r\n", true},
	}
	for name, test := range tests {
		rapid.Check(t, func(t *rapid.T) { // however it is cut
			var g guard
			var err error
			for rest := test.reply; rest != "" && err == nil; {
				n := min(len(rest), rapid.SampledFrom([]int{1, 2, 3, 7, 100, 4096, 1 << 20}).
					Draw(t, "bytes"))
				err = g.read([]byte(rest[:n]))
				rest = rest[n:]
				if len(rest) > 100_000 {
					err = g.read([]byte(rest[:len(rest)-50_000]))
					rest = rest[len(rest)-50_000:]
				}
			}
			if (err == nil) != test.valid {
				t.Fatalf("%s: got %v", name, err)
			}
			if cap(g.line) > 2*maxHeader {
				t.Fatalf("%s: %d bytes are kept of a line", name, cap(g.line))
			}
		})
	}
}
