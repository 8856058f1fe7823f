package engine

import (
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/locking"
)

// handover wakes firings that wait for a resource which a run of this replica has released: for
// each resource, the firing that has waited longest on this replica. All other firings ask again
// when their next try comes. So a wake saves time only. It may be used concurrently.
type handover struct {
	mu      sync.Mutex
	waiting map[string][]*waitingFiring // by the resource that its holder has, oldest first
}

// waitingFiring waits for one resource.
type waitingFiring struct {
	position
	wake chan struct{} // closed by the wake
}

func newHandover() *handover { return &handover{waiting: map[string][]*waitingFiring{}} }

// wait adds a firing that waits for the resource, in its display form. The channel is closed when
// the firing should ask again. The caller must call leave when it waits no longer; leave reports
// whether the firing was woken.
func (h *handover) wait(resource string, p position) (wake <-chan struct{}, leave func() bool) {
	w := &waitingFiring{position: p, wake: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := h.waiting[resource]
	at, _ := slices.BinarySearchFunc(queue, p, func(w *waitingFiring, p position) int {
		if p.before(w.position) {
			return 1
		}
		return -1
	})
	h.waiting[resource] = slices.Insert(queue, at, w)
	return w.wake, func() bool { return !h.remove(resource, w) }
}

// remove reports whether the firing was still waiting.
func (h *handover) remove(resource string, w *waitingFiring) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(h.waiting[resource], w)
	if at >= 0 {
		h.set(resource, slices.Delete(h.waiting[resource], at, at+1))
	}
	return at >= 0
}

func (h *handover) set(resource string, queue []*waitingFiring) {
	if len(queue) == 0 {
		delete(h.waiting, resource)
		return
	}
	h.waiting[resource] = queue
}

// released wakes the first waiting firing for each resource of the requests.
func (h *handover) released(requests []locking.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) == 0 {
		return
	}
	for _, r := range requests {
		h.wakeFirst(r.Resource.String())
	}
}

// wake wakes the first firing that waits for the resource, in its display form.
func (h *handover) wake(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeFirst(resource)
}

// wakeAll wakes all firings that wait for the resource, in its display form.
func (h *handover) wakeAll(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiting[resource] {
		close(w.wake)
	}
	delete(h.waiting, resource)
}

func (h *handover) wakeFirst(resource string) {
	if queue := h.waiting[resource]; len(queue) > 0 {
		close(queue[0].wake)
		h.set(resource, queue[1:])
	}
}

// awaitsAny reports whether a firing waits for one of the resources.
func (h *handover) awaitsAny(requests []locking.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) > 0 && slices.ContainsFunc(requests, func(r locking.Request) bool {
		return len(h.waiting[r.Resource.String()]) > 0
	})
}

// awaits reports whether a firing waits for the resource, in its display form.
func (h *handover) awaits(resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting[resource]) > 0
}
