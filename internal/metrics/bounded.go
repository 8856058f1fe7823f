package metrics

import (
	"strings"
	"sync"
)

// other is the label value shared by all keys beyond the first ones.
const other = "other"

// bounded has a value for each of the first keys, and one for all others. It may be
// used concurrently.
type bounded[K comparable, V any] struct {
	most int
	text func(K) string
	make func(label string) V

	mu    sync.RWMutex
	known map[K]V
	rest  *V // made at its first use, when known is full
}

func newBounded[K comparable, V any](most int, text func(K) string,
	make func(label string) V) *bounded[K, V] {
	return &bounded[K, V]{most: most, text: text, make: make, known: map[K]V{}}
}

func (b *bounded[K, V]) of(key K) V {
	if v, known := b.existing(key); known {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, known := b.known[key]; known {
		return v
	}
	if len(b.known) < b.most {
		v := b.make(strings.ToValidUTF8(b.text(key), "\uFFFD"))
		b.known[key] = v
		return v
	}
	if b.rest == nil {
		rest := b.make(other)
		b.rest = &rest
	}
	return *b.rest
}

// existing returns the value of the key, if it was made already.
func (b *bounded[K, V]) existing(key K) (v V, exists bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if v, exists = b.known[key]; !exists && b.rest != nil {
		return *b.rest, true
	}
	return v, exists
}
