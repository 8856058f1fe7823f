package parallel_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/parallel"
)

func TestForCallsOnceForEachNumber(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 101, 1_000, 1_003} {
		calls := make([]int, n)
		parallel.For(n, func(i int) { calls[i]++ })
		for i, times := range calls {
			if times != 1 {
				t.Errorf("%d numbers: got %d calls for %d, want 1", n, times, i)
			}
		}
	}
}
