package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
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

// TestTimetableMovesWithoutAllocations plans a job again, as each tick does.
func TestTimetableMovesWithoutAllocations(t *testing.T) {
	var table timetable
	for i := range 100 {
		table.put(planned{at: time.Unix(int64(i), 0)})
	}
	allocations := testing.AllocsPerRun(100, func() {
		p := table.pop()
		p.at = p.at.Add(time.Minute)
		table.put(p)
	})
	if allocations != 0 {
		t.Errorf("got %v allocations, want none", allocations)
	}
}
