package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// forgettingOutbox counts the deletions of old deliveries.
type forgettingOutbox struct {
	storage.Outbox
	forgotten int
}

func (o *forgettingOutbox) ForgetDeliveries(context.Context) error {
	o.forgotten++
	return nil
}

// oneCluster is a store that only knows its cluster.
type oneCluster struct{ storage.Store }

func (oneCluster) ClusterID() uuid.UUID { return uuid.UUID{1} }

// Deliveries of a webhook outlast its removal from the configuration, and keep their runs in the
// history.
func TestReplicaWithoutWebhooksDeletesOldDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outbox := &forgettingOutbox{}
		r := &Replica{opened: opened{store: Storage{Store: oneCluster{}, Outbox: outbox}}}
		if err := r.openSender(t.Context(), &configs.Config{}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
		defer stop()
		if err := r.sender.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if outbox.forgotten == 0 {
			t.Error("no old deliveries were deleted within a day")
		}
	})
}
