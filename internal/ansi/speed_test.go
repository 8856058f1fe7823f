package ansi

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// TestHostileOutputIsFast has 64 KB of output of a run. On a slow machine it may take longer, but
// not three times as long as half of it.
func TestHostileOutputIsFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	for _, text := range []string{"\x1b", "\x1b[", "\x1b[1;", "\x1b[31m", "\x1b[31mx", "\x1b]8;;",
		"\x1b]8;;\a",
		"\x1bP", "\b", "x\b", "\r", "x\r", "\n", "\t", "\u009b", "\u202e", "\xff"} {
		for _, before := range []string{"", "\x1b[", "\x1b]"} {
			parses := func(size int) func() {
				output := before + strings.Repeat(text, size/len(text))
				return func() {
					Parse(output)
					Plain(output)
				}
			}
			size := (64 << 10) / part
			speedtest.WithinOrLike(t, before+text, 100*time.Millisecond/time.Duration(part),
				parses(size/2), parses(size))
		}
	}
}
