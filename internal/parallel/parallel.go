// Package parallel spreads the work on the elements of a list over the processors.
package parallel

import (
	"runtime"
	"sync"
)

// few is the number of elements for which one goroutine is enough.
const few = 100

// For calls do with each number from 0 to n-1, and returns when all calls have returned. The calls
// are concurrent, in one goroutine for each processor, so do must not wait for another call.
func For(n int, do func(i int)) {
	parts := runtime.GOMAXPROCS(0)
	if n <= few {
		parts = 1
	}
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() {
			for i := n * part / parts; i < n*(part+1)/parts; i++ {
				do(i)
			}
		})
	}
	all.Wait()
}
