package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is by how many percent the heap of a replica may grow, from what is in use, until
	// the next garbage collection. Most of the heap, such as the cron table, stays in use, and each
	// collection reads all of it. Go's 100 costs more processor time, and 200 costs more memory:
	// with 9,000 jobs and many requests for pages, a replica took 440 MB instead of 250.
	gcPercent = 150

	// leastGarbage is how many bytes may gather at least until the next garbage collection. 1,000
	// firings leave about 12 MB. If their burst meets a collection, that also reads the stacks of
	// all their goroutines. A replica with few firings never gathers so much, because Go collects
	// garbage at least every two minutes.
	leastGarbage = 64 << 20
)

// collections decides after each garbage collection when the next one begins.
type collections struct {
	decided func(percent int) // called after each decision
}

// run decides until ctx ends, unless the environment sets GOGC. A replica calls it after its start,
// which uses the most memory. run returns at once.
func (c collections) run(ctx context.Context, getenv func(string) string) {
	if getenv("GOGC") == "" {
		c.decide(ctx)
	}
}

// decide sets GOGC, now and after each collection. Each collection finds that the last mark is not
// in use, and Go then calls decide again.
func (c collections) decide(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	percent := percentFor(heapInUse())
	debug.SetGCPercent(percent)
	c.decided(percent)
	mark := new([4]*byte)
	runtime.AddCleanup(mark, c.decide, ctx)
}

// percentFor returns the GOGC for a heap with so many bytes in use.
func percentFor(inUse uint64) int {
	// Go lets the heap grow to 4 MB * GOGC / 100 in any case (heapMinimum in its source).
	const most = leastGarbage * 100 / (4 << 20)
	return int(min(max(gcPercent, leastGarbage*100/max(inUse, 1)), most))
}

// heapInUse returns the bytes that the last collection found in use.
func heapInUse() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
