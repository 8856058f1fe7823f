// Package output has the text that runs write: bounded, and in a form that every
// store accepts.
package output

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

// The output that is stored with a run, in bytes.
const (
	Max          = 64 << 10
	MaxSucceeded = 4 << 10
)

// CutMark is the first line of a text whose beginning was cut off.
const CutMark = "[earlier output was cut]\n"

// Tail is a writer that retains the last bytes written to it. It may be used concurrently.
type Tail struct {
	mu      sync.Mutex
	size    int
	kept    []byte
	dropped bool
	written int64
	mask    func(string) string // nil: none
	longest int                 // bytes of a secret
}

// NewTail returns a Tail that retains at least the last size bytes.
func NewTail(size int) *Tail { return &Tail{size: size} }

// Part returns a Tail for a part of what is written to t, with the mask of t.
func (t *Tail) Part(size int) *Tail { return &Tail{size: size, mask: t.mask, longest: t.longest} }

// Mask makes Text mask secrets of at most longest bytes. It must be called before the first Write.
func (t *Tail) Mask(mask func(string) string, longest int) { t.mask, t.longest = mask, longest }

// Write appends p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.written += int64(n)
	if len(p) > t.size {
		p, t.dropped = p[len(p)-t.size:], true
	}
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.size { // amortised: most writes copy nothing
		t.kept, t.dropped = append(t.kept[:0], t.kept[len(t.kept)-t.size:]...), true
	}
	return n, nil
}

// Written returns how many bytes were written in total.
func (t *Tail) Written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// Text returns at most the last limit bytes as valid UTF-8 without NUL, which every store accepts.
// If something was cut off, the first line says so.
func (t *Tail) Text(limit int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, cut := t.kept, t.dropped
	if t.mask != nil {
		kept = t.masked()
	}
	if limit = min(limit, t.size); len(kept) > limit {
		kept, cut = kept[len(kept)-limit:], true
	}
	for cut && len(kept) > 0 && !utf8.RuneStart(kept[0]) {
		kept = kept[1:]
	}
	text := PlainText(string(kept))
	if cut {
		text = CutMark + text
	}
	return text
}

// masked returns all that is retained, masked. If something was dropped, a secret may be cut in two
// at the beginning, where it is not recognized. So the text begins with a whole line, or without
// one, behind the longest secret.
func (t *Tail) masked() []byte {
	kept, hidden := t.kept, 0
	if t.dropped {
		if _, whole, found := bytes.Cut(kept, []byte("\n")); found {
			kept = whole
		} else {
			hidden = t.longest
		}
	}
	text := t.mask(PlainText(string(kept)))
	return []byte(text[min(hidden, len(text)):])
}

// PlainText returns s as valid UTF-8 without NUL. PostgreSQL refuses other text, and one such text
// would fail its whole batch.
func PlainText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
