package servertest

import (
	"sync"
	"testing"
)

// TestPortsDiffer chooses ports concurrently. None of them has a listener in the end, so only the
// choice can make them differ.
func TestPortsDiffer(t *testing.T) {
	const callers, each = 8, 100
	ports := make(chan int, callers*each)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				port, err := freePort()
				if err != nil {
					t.Error(err)
					return
				}
				ports <- port
			}
		})
	}
	all.Wait()
	close(ports)
	seen := map[int]bool{}
	for port := range ports {
		if seen[port] || port < lowestPort || port >= lowestPort+portCount {
			t.Errorf("got port %d, want another one in the range", port)
		}
		seen[port] = true
	}
}
