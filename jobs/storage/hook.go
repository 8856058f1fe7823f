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
// writes it.
type Delivery struct {
	ID        uuid.UUID // the same in every try
	Webhook   string
	Run       Record    // without output
	CreatedAt time.Time // by the store's clock
	TakenAt   time.Time // when TakeDeliveries leased it for this try, by the store's clock
	Tries     int       // this one included
	// Since is when the current series of tries began, and EarlierTries is the number of tries
	// before it. An operator starts a new series with DeliverAgain.
	Since        time.Time
	EarlierTries int
}

// Settlement is the result of one try of a delivery.
type Settlement struct {
	ID uuid.UUID
	// Tries and EarlierTries are those of the delivery. If the delivery was taken again after this
	// try, the Settlement changes nothing. The same holds if an operator started a new series of
	// tries, unless this try delivered it.
	Tries, EarlierTries int
	// Delivered ends the delivery. Otherwise it is tried again after Again, or given up.
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

// UndeliveredFilter narrows a list of deliveries. Zero fields do not filter.
type UndeliveredFilter struct {
	Webhook string    // by its name
	Run     uuid.UUID // only of this run
	GivenUp bool      // only deliveries that were given up
	// Before and After give a delivery by its CreatedAt and ID. They select the next and the
	// previous page, as in RunFilter.
	Before, After *RunCursor
	Limit         int // 1 to MaxBatch; 0 means 100
}

// Check returns a *BadInputError if no delivery can match the filter.
func (f UndeliveredFilter) Check() error {
	if f.Limit < 0 || f.Limit > MaxBatch {
		return &BadInputError{"limit",
			fmt.Sprintf("found %d, expected 1 to %d, or 0 for 100", f.Limit, MaxBatch)}
	}
	return checkText("webhook", f.Webhook, 0, MaxNameBytes)
}

// DeliveryRetention is how long failed deliveries and their runs are kept.
const DeliveryRetention = 30 * 24 * time.Hour

// Outbox is a store of deliveries that any replica may take. The store's clock decides which
// deliveries are due.
type Outbox interface {
	// TakeDeliveries leases at most limit deliveries of the webhook that are due, the longest due
	// first. No other caller gets them during the lease; after it they are due again.
	TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]Delivery,
		error)
	// SettleDelivery records the result of a try, and reports whether the caller still had the
	// lease.
	SettleDelivery(ctx context.Context, s Settlement) (bool, error)
	// UndeliveredHooks returns deliveries that have failed so far or were given up, the youngest
	// first.
	UndeliveredHooks(ctx context.Context, f UndeliveredFilter) ([]Undelivered, error)
	// DeliverAgain makes a delivery due at once, even if it was given up, and starts a new series
	// of tries. It is an action like those of Actions. It returns ErrNotFound if the delivery does
	// not exist, was delivered, or is older than DeliveryRetention.
	DeliverAgain(ctx context.Context, action Action, delivery uuid.UUID) (Undelivered, error)
	// ForgetDeliveries deletes deliveries that are older than DeliveryRetention.
	ForgetDeliveries(ctx context.Context) error
}

// SortedHooks returns the hooks sorted, each once.
func SortedHooks(hooks []jobs.Hook) []jobs.Hook {
	sorted := slices.SortedFunc(slices.Values(hooks), func(a, b jobs.Hook) int {
		return cmp.Or(strings.Compare(a.Webhook, b.Webhook),
			strings.Compare(string(a.State), string(b.State)))
	})
	return slices.Compact(sorted)
}
