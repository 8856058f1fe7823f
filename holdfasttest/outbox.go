package holdfasttest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// noOutbox is a storage.Outbox without deliveries, because there are no webhooks in tests.
type noOutbox struct{}

// TakeDeliveries implements storage.Outbox.
func (noOutbox) TakeDeliveries(context.Context, string, time.Duration, int) ([]storage.Delivery,
	error) {
	return nil, nil
}

// SettleDelivery implements storage.Outbox.
func (noOutbox) SettleDelivery(context.Context, storage.Settlement) (bool, error) {
	return false, nil
}

// UndeliveredHooks implements storage.Outbox.
func (noOutbox) UndeliveredHooks(context.Context, storage.UndeliveredFilter) (
	[]storage.Undelivered, error) {
	return nil, nil
}

// DeliverAgain implements storage.Outbox.
func (noOutbox) DeliverAgain(_ context.Context, _ storage.Action,
	delivery uuid.UUID) (storage.Undelivered, error) {
	return storage.Undelivered{}, fmt.Errorf("delivery %s: %w", delivery, storage.ErrNotFound)
}

// ForgetDeliveries implements storage.Outbox.
func (noOutbox) ForgetDeliveries(context.Context) error { return nil }
