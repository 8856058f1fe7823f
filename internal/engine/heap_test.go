package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// number is a value for heaps of tests.
type number int

func (n number) before(other number) bool { return n < other }

// TestHeapIsSorted takes values from heaps of all small sizes, among them equal ones, while others
// are added.
func TestHeapIsSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 40 {
		var heap []number
		var kept []number // what the heap has, sorted
		add := func() {
			n := number(random.IntN(size + 1))
			pushHeap(&heap, n)
			kept = append(kept, n)
			slices.Sort(kept)
		}
		for range size {
			add()
		}
		for step := 0; len(kept) > 0; step++ {
			if got := popHeap(&heap); got != kept[0] {
				t.Fatalf("size %d, step %d: got %d, want %d", size, step, got, kept[0])
			}
			if kept = kept[1:]; step < size {
				add()
				if got := popHeap(&heap); got != kept[0] {
					t.Fatalf("size %d, step %d: got %d, want %d", size, step, got, kept[0])
				}
				kept = kept[1:]
			}
		}
		if len(heap) != 0 {
			t.Errorf("size %d: %d values are left", size, len(heap))
		}
	}
}
