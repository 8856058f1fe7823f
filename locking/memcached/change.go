package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/locking"
)

// change replaces or removes an item, if it has the value. To remove it, it stores an expired item.
// That is empty, so that a full server has room for it.
type change struct {
	key         string
	value, with []byte
	lifetime    int32
	// The item's version, if it is known. It is sent only on the connection that it was read on:
	// another connection may lead to a restarted server, which counts versions from 1 again.
	version locking.Version

	unclear bool // an earlier request may have taken effect
	ended   bool
	err     error // the result
}

func (c *change) finish(err error) { c.ended, c.err = true, err }

// fail ends the change after a request that had no effect.
func (c *change) fail(err error) {
	if c.unclear {
		err = fmt.Errorf("%w: %w", locking.ErrUnclear, err)
	}
	c.finish(err)
}

// isKnown reports whether the version is known.
func (c *change) isKnown() bool { return c.version.Connection != 0 }

// changeAll makes changes on one server: those with a known version in one request, the others in
// two, of which the first reads the items. If the connection breaks it tries once more.
func (l *link) changeAll(ctx context.Context, changes []*change) {
	l.swapAll(ctx, changes)
	const tries = 2
	for range tries {
		var left []*change
		for _, c := range changes {
			if !c.ended {
				left = append(left, c)
			}
		}
		if len(left) == 0 {
			return
		}
		l.compareAll(ctx, left)
		l.swapAll(ctx, left)
	}
	for _, c := range changes {
		if !c.ended {
			c.finish(fmt.Errorf("%w: the item or the connection changed repeatedly",
				locking.ErrUnclear))
		}
	}
}

// swapAll sends the changes whose version is known. It leaves those that must be compared again.
func (l *link) swapAll(ctx context.Context, changes []*change) {
	if !slices.ContainsFunc(changes, (*change).isKnown) {
		return
	}
	conn, err := l.connection(ctx)
	if err != nil {
		for _, c := range changes {
			if !c.ended {
				c.fail(err)
			}
		}
		return
	}
	request := l.owner.newCall(len(changes))
	var sent []*change
	for _, c := range changes {
		if !c.ended && c.version.Connection == conn.id {
			request.swap(c.key, c.with, c.lifetime, c.version.Number)
			sent = append(sent, c)
		}
	}
	if len(sent) == 0 {
		return
	}
	err = conn.do(ctx, request)
	for i, c := range sent {
		c.version = locking.Version{}
		reply := request.reply(i)
		result := changed(reply, err)
		switch {
		case reply != nil && reply.kind == replyExists:
			// The owner has renewed the item since, or another owner has it.
		case reply == nil && isBroken(err):
			c.unclear = c.unclear || errors.Is(result, locking.ErrUnclear)
		case c.unclear && c.gone(result):
			c.finish(nil)
		default:
			c.finish(result)
		}
	}
}

// compareAll reads the items. It sets the versions of those that have their value, and ends the
// other changes.
func (l *link) compareAll(ctx context.Context, changes []*change) {
	keys := make([]string, len(changes))
	for i, c := range changes {
		keys[i] = c.key
	}
	items, err := l.read(ctx, keys)
	found := make(map[string]foundItem, len(items))
	for _, it := range items {
		found[it.key] = it
	}
	for _, c := range changes {
		f, exists := found[c.key]
		var result error
		switch {
		case err != nil:
			c.fail(err)
			continue
		case !exists:
			result = locking.ErrMissing
		case !bytes.Equal(f.value, c.value):
			result = locking.ErrNotOwner
		default:
			c.version = locking.Version{Connection: f.conn.id, Number: f.version}
			continue
		}
		if c.unclear && c.gone(result) {
			result = nil
		}
		c.finish(result)
	}
}

// gone reports whether the error says that the item of a removal is not there any more. If an
// earlier request was unclear, it has taken effect.
func (c *change) gone(err error) bool {
	return c.lifetime == remove &&
		(errors.Is(err, locking.ErrMissing) || errors.Is(err, locking.ErrNotOwner))
}
