package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentForAHeap(t *testing.T) {
	const mb = 1 << 20
	for inUse, want := range map[uint64]int{0: 1600, 100: 1600, 4 * mb: 1600, 16 * mb: 400,
		32 * mb: 200, 42 * mb: 152, 43 * mb: 150, 1000 * mb: 150} {
		if got := percentFor(inUse); got != want {
			t.Errorf("%d for %d bytes in use, want %d", got, inUse, want)
		}
	}
}

// After each collection, the next one is decided anew, until the context ends.
func TestEachCollectionDecidesOnTheNext(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	decisions := make(chan int, 100)
	collections{func(percent int) { decisions <- percent }}.run(ctx,
		func(string) string { return "" })
	small := <-decisions
	used := make([]byte, 2*leastGarbage)
	for percent := small; percent != gcPercent; percent = <-decisions {
		runtime.GC()
	}
	if runtime.KeepAlive(used); small <= gcPercent {
		t.Fatalf("%d %% for the heap of this test, want more than %d", small, gcPercent)
	}
	for percent := gcPercent; percent == gcPercent; percent = <-decisions {
		runtime.GC()
	}
	if got := debug.SetGCPercent(123); got <= gcPercent {
		t.Errorf("GOGC is %d after the last decision", got)
	}
}

func TestTheEnvironmentDecidesOnCollections(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	for _, gogc := range []string{"off", "80"} {
		c := collections{func(percent int) { t.Errorf("%d with GOGC=%s", percent, gogc) }}
		c.run(t.Context(), func(name string) string {
			if name != "GOGC" {
				t.Errorf("read %s, want GOGC", name)
			}
			return gogc
		})
	}
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("GOGC is %d", got)
	}
}
