package locking

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Mark leaves a mark with the name, which Marked finds for ttl. ttl is a second to 30 days. A mark
// may get lost earlier, so it may only save work. A name has at most one mark: a second one has no
// effect.
func (l *Locker) Mark(ctx context.Context, name string, ttl time.Duration) error {
	if name == "" {
		return fmt.Errorf("%w: a mark needs a name", ErrBadName)
	}
	if err := checkTTL(markKind, name, ttl); err != nil {
		return err
	}
	key := keyOf(l.options.Namespace, markKind+":"+name)
	err := l.checkServer(key)
	if err == nil {
		err = l.backend.Add(ctx, key, []byte(l.options.Namespace), wholeSeconds(ttl))
	}
	if err == nil || errors.Is(err, ErrNotStored) {
		return nil
	}
	return fmt.Errorf("mark %s: %w", name, err)
}

// Marked returns the names that have a mark. It leaves out the names of servers that do not reply,
// and returns their errors.
func (l *Locker) Marked(ctx context.Context, names ...string) (map[string]bool, error) {
	return l.existing(ctx, markKind, names)
}
