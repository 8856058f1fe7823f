package ansi

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// TestHostileOutputIsFast has 64 KB of output of a run.
func TestHostileOutputIsFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	for _, text := range []string{"\x1b", "\x1b[", "\x1b[1;", "\x1b[31m", "\x1b[31mx", "\x1b]8;;",
		"\x1b]8;;\a",
		"\x1bP", "\b", "x\b", "\r", "x\r", "\n", "\t", "\u009b", "\u202e", "\xff"} {
		long := strings.Repeat(text, (64<<10)/part/len(text))
		for _, output := range []string{long, "\x1b[" + long, "\x1b]" + long} {
			speedtest.Within(t, text, 100*time.Millisecond/time.Duration(part), func() {
				Parse(output)
				Plain(output)
			})
		}
	}
}
