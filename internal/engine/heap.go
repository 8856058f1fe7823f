package engine

// ordered is a value that a heap can order.
type ordered[T any] interface{ before(other T) bool }

// pushHeap adds a value to a binary heap, whose first value is the least. Unlike container/heap, it
// allocates no interface value: when 100,000 jobs are due together, the timetable and the queue
// move each of them.
func pushHeap[T ordered[T]](heap *[]T, x T) {
	*heap = append(*heap, x)
	h := *heap
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// popHeap removes and returns the least value. The heap must not be empty.
func popHeap[T ordered[T]](heap *[]T) T {
	h := *heap
	least, last := h[0], len(h)-1
	var none T
	h[0], h[last] = h[last], none
	h = h[:last]
	*heap = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return least
		}
		if right := child + 1; right < last && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(h[i]) {
			return least
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
