package race

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// Only skips a long test of concurrent code unless this binary has the race detector, as in `make
// race`, or this is a soak.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled && !soak.Running() {
		t.Skip("runs in `make race` and `make soak` only")
	}
}
