package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Hook says that a webhook is told of a job's runs that end in this state.
type Hook struct {
	Webhook string // by its name in the configuration
	State   State  // a final one
}

// sortedHooks returns the hooks in an order of their own, each once.
func sortedHooks(hooks []Hook) []Hook {
	sorted := slices.SortedFunc(slices.Values(hooks), func(a, b Hook) int {
		return cmp.Or(strings.Compare(a.Webhook, b.Webhook),
			strings.Compare(string(a.State), string(b.State)))
	})
	return slices.Compact(sorted)
}

func checkHooks(hooks []Hook) error {
	for _, h := range hooks {
		if h.Webhook == "" || !slices.Contains(States(), h.State) || !h.State.Final() {
			return fmt.Errorf("hook of webhook %q: expected a webhook's name and a final state, "+
				"found %q", h.Webhook, h.State)
		}
	}
	return nil
}

// Delivery is the end of a run that one webhook is to be told of. It is written
// in the transaction that ends the run.
type Delivery struct {
	ID        uuid.UUID // the same in every try
	Webhook   string
	Run       Record // without output
	CreatedAt time.Time
	TakenAt   time.Time // by the same clock
	Tries     int       // this one included
	// Since when its tries count, and how many there were before: they began
	// anew when an operator had it delivered again.
	Since  time.Time
	Former int
}

// Settlement is what became of one try of a delivery.
type Settlement struct {
	ID     uuid.UUID
	Tries  int // as the delivery had it, as is Former: whoever has taken it since is left alone,
	Former int // and so is one that failed, but was to be delivered again by then
	// Delivered ends it. Else it is tried again after Again, or given up.
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
	State     State      `json:"state"`
	CreatedAt time.Time  `json:"created_at"`
	Tries     int        `json:"tries"`
	NextAt    *time.Time `json:"next_try_at,omitempty"` // nil once it was given up
	GaveUpAt  *time.Time `json:"gave_up_at,omitempty"`
	Error     string     `json:"error"` // of the last try
}

// UndeliveredFilter narrows a list of deliveries; zero fields do not.
type UndeliveredFilter struct {
	Webhook string     // by its name
	Run     uuid.UUID  // of this run alone
	GivenUp bool       // only what is tried no more
	Before  *RunCursor // the page after this delivery: its CreatedAt and ID
	After   *RunCursor // the page before this delivery, as in RunFilter
	Limit   int        // 1 to MaxBatch; 0 means 100
}

// Check returns a *BadInputError for what no delivery can have.
func (f UndeliveredFilter) Check() error {
	if f.Limit < 0 || f.Limit > MaxBatch {
		return &BadInputError{"limit",
			fmt.Sprintf("found %d, expected 1 to %d, or 0 for 100", f.Limit, MaxBatch)}
	}
	return checkText("webhook", f.Webhook, 0, MaxNameBytes)
}

// DeliveryRetention is how long what was not delivered is shown, and its run kept.
const DeliveryRetention = 30 * 24 * time.Hour

// Outbox is a store that keeps what webhooks are to be told, for whichever
// replica comes to it. Its clock decides.
type Outbox interface {
	// TakeDeliveries lends at most limit deliveries of the webhook that are
	// scheduledAt, the one that is due longest first. Nobody else is lent them for the
	// lease; after it they are due again.
	TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]Delivery,
		error)
	// SettleDelivery records what became of a try, and reports whether the
	// delivery was still lent to whoever made it.
	SettleDelivery(ctx context.Context, s Settlement) (bool, error)
	// UndeliveredHooks returns what has failed so far or was given up, the
	// youngest first.
	UndeliveredHooks(ctx context.Context, f UndeliveredFilter) ([]Undelivered, error)
	// DeliverAgain has a delivery due at once, also one that was given up: its
	// tries count anew. It is an action as those of Control are. ErrNotFound says
	// that there is no such delivery, or none any more: it was delivered, or is
	// older than DeliveryRetention.
	DeliverAgain(ctx context.Context, action Action, delivery uuid.UUID) (Undelivered, error)
	// ForgetDeliveries deletes what is older than DeliveryRetention.
	ForgetDeliveries(ctx context.Context) error
}
