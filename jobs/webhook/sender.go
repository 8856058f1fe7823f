package webhook

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	pollEvery    = time.Second      // between looks for what is due
	atOnce       = 4                // requests to one address at the same time, by one replica
	leaseMargin  = 10 * time.Second // beyond a try's timeout: a delivery is lent for both
	storeTimeout = 5 * time.Second  // of one question to the outbox
	forgetEvery  = time.Hour
	maxPostponed = time.Hour // however long a receiver asks to be left alone
)

// Hook is one address.
type Hook struct {
	Name    string
	URL     string        // never logged
	Keys    [][]byte      // each of which signs, the newest first; never logged
	Header  http.Header   // sent along; never logged
	Timeout time.Duration // of one try
	// from the moment in which the run ended, or an operator had it told again
	Retry retry.Policy
}

// Options says what a Sender tells whom.
type Options struct {
	Outbox  jobs.Outbox
	Hooks   []Hook
	Cluster uuid.UUID
	Log     zerolog.Logger
}

// Sender is one replica's part in telling webhooks.
type Sender struct {
	options      Options
	client       *http.Client
	poll, margin time.Duration // pollEvery and leaseMargin, but in tests
}

// New returns a sender.
func New(o Options) *Sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes, transport.MaxIdleConnsPerHost = maxResponse, atOnce
	return &Sender{options: o, poll: pollEvery, margin: leaseMargin, client: &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// Run tells webhooks what is due until ctx ends. Tries that are under way then
// are given up, and their deliveries are due at once, for others. It returns
// nil. While the store can't be asked it goes on trying.
func (s *Sender) Run(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	var all sync.WaitGroup
	for _, h := range s.options.Hooks {
		t := &teller{Sender: s, Hook: h, log: s.options.Log.With().Str("webhook", h.Name).Logger()}
		all.Go(func() { t.run(ctx) })
	}
	all.Go(func() { s.forget(ctx) })
	all.Wait()
	return nil
}

// forget deletes, now and then, what is too old to be of use to anybody.
func (s *Sender) forget(ctx context.Context) {
	for wait(ctx, forgetEvery) {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		if err := s.options.Outbox.ForgetDeliveries(bounded); err != nil && ctx.Err() == nil {
			s.options.Log.Debug().Err(err).Msg("old deliveries not deleted")
		}
		cancel()
	}
}

// teller tells one webhook. Each has its own, so that one that is slow holds up
// no other.
type teller struct {
	*Sender
	Hook
	log    zerolog.Logger
	failed bool // the outbox could not be asked
}

func (t *teller) run(ctx context.Context) {
	for {
		if t.turn(ctx) < atOnce && !wait(ctx, t.poll) {
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// turn makes a try of what is due, and returns how many.
func (t *teller) turn(ctx context.Context) int {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	taken, err := t.options.Outbox.TakeDeliveries(bounded, t.Name, t.Timeout+t.margin, atOnce)
	if err != nil {
		if ctx.Err() == nil && !t.failed {
			t.log.Warn().Err(err).Msg("deliveries not looked for, trying on")
		}
		t.failed = true
		return 0
	}
	t.failed = false
	var tries sync.WaitGroup
	for _, d := range taken {
		if d.Run.Job == "" { // the history no longer has it: there is nothing to tell
			t.settle(ctx, d, 0, nil)
			continue
		}
		tries.Go(func() {
			postponed, err := t.try(ctx, d)
			t.settle(ctx, d, postponed, err)
		})
	}
	tries.Wait()
	return len(taken)
}

// settle records what became of a try, the next of which the receiver may have
// postponed. Where that fails the delivery is due again when its lease is over.
func (t *teller) settle(ctx context.Context, d jobs.Delivery, postponed time.Duration, err error) {
	s := jobs.Settlement{ID: d.ID, Tries: d.Tries, Former: d.Former, Delivered: err == nil}
	log := t.log.With().Stringer("delivery", d.ID).Stringer("run", d.Run.ID).Str("job", d.Run.Job).
		Str("state", string(d.Run.State)).Int("tries", d.Tries).Logger()
	switch again, more := t.again(d, postponed); {
	case err == nil:
		log.Debug().Msg("webhook told")
	case ctx.Err() != nil:
		s.Error = "its replica was stopped"
	case more:
		s.Error, s.Again = err.Error(), again
		log.WithLevel(loudAtFirst(d.Tries)).Err(err).Dur("again_in", again).
			Msg("webhook not told, trying again")
	default:
		s.Error, s.GiveUp = err.Error(), true
		log.Error().Err(err).Msg("webhook not told, given up")
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	stood, err := t.options.Outbox.SettleDelivery(bounded, s)
	switch {
	case err != nil:
		log.Warn().Err(err).Msg("delivery not settled, it is tried again")
	case !stood:
		log.Debug().Msg("delivery took longer than it was lent for, another replica has it")
	}
}

// again returns when the next try is to be, if there is to be one. Who asks for
// more time gets it, as far as the policy goes on: its last try is at its end.
func (t *teller) again(d jobs.Delivery, postponed time.Duration) (time.Duration, bool) {
	waited := d.TakenAt.Sub(d.Since)
	again, more := t.Retry.After(d.Tries-d.Former, waited)
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

// wait reports whether d has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
