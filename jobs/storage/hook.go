package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Delivery is a notification of a webhook about the end of a run. The transaction that ends the run
// adds it. Times are of the store's clock.
type Delivery struct {
	ID        uuid.UUID // the same in every try
	Webhook   string
	Run       Record // without output
	CreatedAt time.Time
	TakenAt   time.Time // when TakeDeliveries leased it for this try
	Tries     int       // including this one
	// Since is when the current series of tries began. EarlierTries is the number of tries before
	// it. DeliverAgain begins a new series.
	Since        time.Time
	EarlierTries int
}

// Settlement is the result of one try of a delivery.
type Settlement struct {
	ID uuid.UUID
	// Tries and EarlierTries are those of the delivery. The Settlement changes nothing if the
	// delivery was taken again after this try. After a call of DeliverAgain, it changes nothing
	// unless Delivered is set.
	Tries, EarlierTries int
	// Delivered ends the delivery. GiveUp ends the tries. Otherwise the next try is after Again.
	Delivered bool
	Again     time.Duration
	GiveUp    bool
	Error     string // why it was not delivered
}

// Undelivered is a delivery that has failed so far, or was given up.
type Undelivered struct {
	ID        uuid.UUID  `json:"id"`
	Webhook   string     `json:"webhook"`
	Run       uuid.UUID  `json:"run_id"`
	Job       string     `json:"job"`
	State     jobs.State `json:"state"`
	CreatedAt time.Time  `json:"created_at"`
	Tries     int        `json:"tries"`
	NextAt    *time.Time `json:"next_try_at,omitempty"` // nil once it was given up
	GaveUpAt  *time.Time `json:"gave_up_at,omitempty"`
	Error     string     `json:"error"` // of the last try
}

// UndeliveredFilter narrows a list of deliveries.
type UndeliveredFilter struct {
	Webhook string // its name
	Run     uuid.UUID
	GivenUp bool // only those that were given up
	Failing bool // only those with another try
	// as in RunFilter, by CreatedAt and ID
	Before, After *RunCursor
	Limit         int
}

// Check returns a *BadInputError if the filter is invalid.
func (f UndeliveredFilter) Check() error {
	if f.Limit < 0 || f.Limit > MaxBatch {
		return &BadInputError{"limit",
			fmt.Sprintf("found %d, expected 1 to %d, or 0 for 100", f.Limit, MaxBatch)}
	}
	return checkText("webhook", f.Webhook, 0, MaxNameBytes)
}

// DeliveryRetention is how long failed deliveries and their runs are kept.
const DeliveryRetention = 30 * 24 * time.Hour

// Outbox holds deliveries, which any replica may take. They are due by the store's clock.
type Outbox interface {
	// TakeDeliveries leases at most limit due deliveries of the webhook, the longest due first. No
	// other caller gets them before the lease ends. Then they are due again.
	TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]Delivery,
		error)
	// SettleDelivery records the result of a try. It reports whether the caller still had the
	// lease.
	SettleDelivery(ctx context.Context, s Settlement) (bool, error)
	// UndeliveredHooks returns deliveries that have failed so far or were given up, the youngest
	// first.
	UndeliveredHooks(ctx context.Context, f UndeliveredFilter) ([]Undelivered, error)
	// DeliverAgain makes a failed delivery due at once, even if it was given up. It is an action.
	// It returns ErrNotFound if the delivery does not exist, was delivered, or is older than
	// DeliveryRetention.
	DeliverAgain(ctx context.Context, action Action, delivery uuid.UUID) (Undelivered, error)
	// ForgetDeliveries deletes deliveries that are older than DeliveryRetention.
	ForgetDeliveries(ctx context.Context) error
}

// sortedHooks returns the hooks sorted, each once.
func sortedHooks(hooks []jobs.Hook) []jobs.Hook {
	sorted := slices.SortedFunc(slices.Values(hooks), func(a, b jobs.Hook) int {
		return cmp.Or(strings.Compare(a.Webhook, b.Webhook),
			strings.Compare(string(a.State), string(b.State)))
	})
	return slices.Compact(sorted)
}
