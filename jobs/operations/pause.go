package operations

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Pause prevents the target's scheduled firings from starting until it is resumed. It returns the
// active pause if there is one already.
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

// Resume ends the target's own pause. The misfire policy decides on the scheduled times during the
// pause, except for those that can still start in time. It returns storage.ErrNotFound if the
// target itself is not paused, even if its group or everything is paused.
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
