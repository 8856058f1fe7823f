package locking

import (
	"context"
	"errors"
	"fmt"
)

// Clear removes what a run that is known to be dead has left on the requests'
// resources, so that nobody has to wait for the end of its lease. Entries of
// others stay. The caller must know that the run can't act any more: its
// claim is gone.
func (l *Locker) Clear(ctx context.Context, requests []Request, run string) error {
	resources, err := l.stageOne(requests)
	if err != nil {
		return err
	}
	keys := make([]string, len(resources))
	for i, r := range resources {
		keys[i] = keyOf(l.options.Namespace, r.Key())
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := l.backend.Get(ctx, keys...)
	if err != nil {
		return fmt.Errorf("locks of run %s: %w", run, err)
	}
	var problems []error
	for i, key := range keys {
		c, ours := decode(found[key], resources[i].Key())
		if !ours || c.Run != clean(run) {
			continue
		}
		err := l.backend.Delete(ctx, key, found[key])
		if err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrNotOwner) {
			problems = append(problems, fmt.Errorf("lock of %s: %w", resources[i], err))
		}
	}
	return errors.Join(problems...)
}
