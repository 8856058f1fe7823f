package webhook

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	pollEvery    = time.Second      // between polls for due deliveries
	atOnce       = 4                // concurrent requests of one replica to one address
	leaseMargin  = 10 * time.Second // the lease exceeds the timeout of a try by this
	storeTimeout = 5 * time.Second  // of one call of the outbox
	forgetEvery  = time.Hour
	maxPostponed = time.Hour // the longest wait that a receiver can ask for
)

// Hook is the address of a webhook.
type Hook struct {
	Name    string
	URL     string        // never logged
	Keys    [][]byte      // every key signs, the newest first; never logged
	Header  http.Header   // added to each request; never logged
	Timeout time.Duration // of one try
	// counts from the end of the run, or from an operator's new delivery
	Retry retry.Policy
}

// secrets returns the texts that no error may show.
func (h Hook) secrets() []string {
	secrets := []string{h.URL}
	for _, key := range h.Keys {
		secrets = append(secrets, string(key))
	}
	for _, values := range h.Header {
		secrets = append(secrets, values...)
	}
	return secrets
}

// Options are the options of a Sender.
type Options struct {
	Outbox  storage.Outbox
	Hooks   []Hook
	Cluster uuid.UUID
	Log     zerolog.Logger
	// Targets are the targets that webhooks may have. Nil refuses link-local addresses and the
	// metadata services of clouds.
	Targets *egress.Rules
}

// Sender sends the deliveries of one replica.
type Sender struct {
	options      Options
	client       *http.Client
	poll, margin time.Duration // pollEvery and leaseMargin, except in tests
}

// New returns a sender.
func New(o Options) *Sender {
	transport := o.Targets.NewTransport()
	transport.MaxResponseHeaderBytes, transport.MaxIdleConnsPerHost = maxResponse, atOnce
	return &Sender{options: o, poll: pollEvery, margin: leaseMargin, client: &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// Run sends due deliveries until ctx ends. Then it cancels its tries, and their deliveries are due
// at once for other replicas. It returns nil. While the store is unavailable it retries.
func (s *Sender) Run(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	var all sync.WaitGroup
	for _, h := range s.options.Hooks {
		t := &hookSender{Sender: s, Hook: h, mask: redact.New(h.secrets()),
			log: s.options.Log.With().Str("webhook", h.Name).Logger()}
		all.Go(func() { t.run(ctx) })
	}
	all.Go(func() { s.forget(ctx) })
	all.Wait()
	return nil
}

// forget periodically deletes deliveries that are too old.
func (s *Sender) forget(ctx context.Context) {
	for sleep.For(ctx, forgetEvery) == nil {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		if err := s.options.Outbox.ForgetDeliveries(bounded); err != nil && ctx.Err() == nil {
			s.options.Log.Debug().Err(err).Msg("delete old deliveries failed")
		}
		cancel()
	}
}

// hookSender sends the deliveries of one webhook, so that a slow webhook does not delay others.
type hookSender struct {
	*Sender
	Hook
	mask   *redact.Mask // of the secrets of the webhook
	log    zerolog.Logger
	failed bool // the last call of the outbox failed
}

func (t *hookSender) run(ctx context.Context) {
	for {
		if t.turn(ctx) < atOnce && sleep.For(ctx, t.poll) != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// turn tries the due deliveries, and returns how many there were.
func (t *hookSender) turn(ctx context.Context) int {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	taken, err := t.options.Outbox.TakeDeliveries(bounded, t.Name, t.Timeout+t.margin, atOnce)
	if err != nil {
		if ctx.Err() == nil && !t.failed {
			t.log.Warn().Err(err).Msg("take deliveries failed, retrying")
		}
		t.failed = true
		return 0
	}
	t.failed = false
	var tries sync.WaitGroup
	for _, d := range taken {
		if d.Run.Job == "" { // its run was deleted: there is nothing to send
			t.settle(ctx, d, 0, nil)
			continue
		}
		tries.Go(func() {
			postponed, err := t.try(ctx, d)
			t.settle(ctx, d, postponed, t.mask.Error(err))
		})
	}
	tries.Wait()
	return len(taken)
}

// settle records the result of a try. The receiver may have postponed the next try. If settling
// fails, the delivery is due again when its lease ends.
func (t *hookSender) settle(ctx context.Context, d storage.Delivery, postponed time.Duration,
	err error) {
	s := storage.Settlement{ID: d.ID, Tries: d.Tries, EarlierTries: d.EarlierTries,
		Delivered: err == nil}
	log := t.log.With().Stringer("delivery", d.ID).Stringer("run", d.Run.ID).Str("job", d.Run.Job).
		Str("state", string(d.Run.State)).Int("tries", d.Tries).Logger()
	switch again, more := t.again(d, postponed); {
	case err == nil:
		log.Debug().Msg("webhook delivered")
	case ctx.Err() != nil:
		s.Error = "its replica was stopped"
	case more:
		s.Error, s.Again = err.Error(), again
		log.WithLevel(loudAtFirst(d.Tries)).Err(err).Dur("again_in", again).
			Msg("webhook delivery failed, retrying")
	default:
		s.Error, s.GiveUp = err.Error(), true
		log.Error().Err(err).Msg("webhook delivery failed, given up")
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	settled, err := t.options.Outbox.SettleDelivery(bounded, s)
	switch {
	case err != nil:
		log.Warn().Err(err).Msg("settle delivery failed, it is retried")
	case !settled:
		log.Debug().Msg("delivery exceeded its lease")
	}
}

// again returns the delay until the next try, and whether there is one. A receiver can postpone the
// next try by at most maxPostponed, and not beyond Retry.Elapsed.
func (t *hookSender) again(d storage.Delivery, postponed time.Duration) (time.Duration, bool) {
	waited := d.TakenAt.Sub(d.Since)
	again, more := t.Retry.After(d.Tries-d.EarlierTries, waited)
	again = max(again, min(postponed, maxPostponed))
	if t.Retry.Elapsed > 0 {
		again = min(again, max(t.Retry.Elapsed-waited, 0))
	}
	return again, more
}

func loudAtFirst(tries int) zerolog.Level {
	if tries == 1 {
		return zerolog.WarnLevel
	}
	return zerolog.DebugLevel
}
