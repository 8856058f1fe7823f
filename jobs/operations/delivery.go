package operations

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Undelivered returns deliveries that have failed so far or were given up, the youngest first. It
// returns errors.ErrUnsupported if the store does not support webhooks.
func (o *Operations) Undelivered(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return nil, err
	}
	return outbox.UndeliveredHooks(ctx, f)
}

// DeliverAgain makes a failed delivery due at once. A replica with the webhook sends it within
// about a second. DeliverAgain returns storage.ErrNotFound if the delivery was delivered or deleted
// meanwhile.
func (o *Operations) DeliverAgain(ctx context.Context, a storage.Action,
	delivery uuid.UUID) (storage.Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return storage.Undelivered{}, err
	}
	if a, err = o.action(ctx, a); err != nil {
		return storage.Undelivered{}, err
	}
	if err := permission.Require(ctx, permission.Trigger, everything()); err != nil {
		return storage.Undelivered{}, err
	}
	u, err := outbox.DeliverAgain(ctx, a, delivery)
	return u, of("delivery "+delivery.String(), err)
}

func (o *Operations) outbox() (storage.Outbox, error) {
	if o.options.Outbox == nil {
		return nil, fmt.Errorf("deliveries in %T: %w", o.options.Control, errors.ErrUnsupported)
	}
	return o.options.Outbox, nil
}
