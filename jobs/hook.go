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
		return cmp.Or(strings.Compare(a.Webhook, b.Webhook), strings.Compare(string(a.State), string(b.State)))
	})
	return slices.Compact(sorted)
}

func checkHooks(hooks []Hook) error {
	for _, h := range hooks {
		if h.Webhook == "" || !slices.Contains(States(), h.State) || !h.State.Final() {
			return fmt.Errorf("hook of webhook %q: expected a webhook's name and a final state, found %q", h.Webhook, h.State)
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
}

// Settlement is what became of one try of a delivery.
type Settlement struct {
	ID    uuid.UUID
	Tries int // as the delivery had it: whoever has taken it since is left alone
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
	State     State      `json:"state"`
	CreatedAt time.Time  `json:"created_at"`
	Tries     int        `json:"tries"`
	NextAt    *time.Time `json:"next_try_at,omitempty"`
	GaveUpAt  *time.Time `json:"gave_up_at,omitempty"`
	Error     string     `json:"error"`
}

// DeliveriesKept is how long what was not delivered is shown.
const DeliveriesKept = 30 * 24 * time.Hour

// Outbox is a store that keeps what webhooks are to be told, for whichever
// replica comes to it. Its clock decides.
type Outbox interface {
	// TakeDeliveries lends at most limit deliveries of the webhook that are
	// due, the one that is due longest first. Nobody else is lent them for the
	// lease; after it they are due again.
	TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]Delivery, error)
	// SettleDelivery records what became of a try, and reports whether the
	// delivery was still lent to whoever made it.
	SettleDelivery(ctx context.Context, s Settlement) (bool, error)
	// UndeliveredHooks returns what has failed so far or was given up, the
	// youngest first, at most limit.
	UndeliveredHooks(ctx context.Context, limit int) ([]Undelivered, error)
	// ForgetDeliveries deletes what is older than DeliveriesKept.
	ForgetDeliveries(ctx context.Context) error
}
