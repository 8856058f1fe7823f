package operations

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Pause pauses the target, or returns its active pause.
func (o *Operations) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Pause{}, err
	}
	if err := o.mayPause(ctx, target); err != nil {
		return storage.Pause{}, err
	}
	p, err := o.options.Control.Pause(ctx, a, target)
	return p, of(target.String(), err)
}

// Resume ends the pause of the target itself, not one of its group or of everything. If there is
// none, it returns storage.ErrNotFound. Scheduled times during the pause whose firings can no
// longer start in time are misfires.
func (o *Operations) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Pause{}, err
	}
	if err := o.mayPause(ctx, target); err != nil {
		return storage.Pause{}, err
	}
	p, err := o.options.Control.Resume(ctx, a, target)
	return p, of(target.String(), err)
}

// ActivePauses returns the active pauses.
func (o *Operations) ActivePauses(ctx context.Context) ([]storage.Pause, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Pauses), err
}
