package locking

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// nonces makes a Locker's nonces, and knows which of them are in use. A nonce with
// the Locker's prefix that is not in use marks a stray: the remains of an attempt
// that failed or ended.
type nonces struct {
	prefix string // unique to this Locker
	count  atomic.Uint64

	mu    sync.Mutex
	inUse map[string]struct{}
}

func newNonces() *nonces { return &nonces{prefix: rand.Text() + "-", inUse: map[string]struct{}{}} }

// next returns a nonce that was never returned before.
func (n *nonces) next() string {
	text := append(make([]byte, 0, 64), n.prefix...)
	return string(strconv.AppendUint(text, n.count.Add(1), 36))
}

// draw returns a nonce that was never returned before, and is in use until drop.
func (n *nonces) draw() string {
	nonce := n.next()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inUse[nonce] = struct{}{}
	return nonce
}

func (n *nonces) drop(nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inUse, nonce)
}

func (n *nonces) isStray(nonce string) bool {
	if !strings.HasPrefix(nonce, n.prefix) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, used := n.inUse[nonce]
	return !used
}
