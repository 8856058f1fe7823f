package lockhistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

const (
	lockersInMemory  = 4
	workersOfALocker = 6
	ttlInMemory      = time.Second // the least
)

// TestGoroutines lets several Lockers of one process contend for locks in memory. One in a hundred
// answers of the grants is lost, and one Locker is disconnected from them until it loses its locks.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	b := newBench(t, memory.NewGrants(), wanted)
	ctx, cancel := context.WithTimeout(t.Context(), faultsLimit)
	defer cancel()
	stop := b.start(ctx)
	some := soak.Pick(12, 40)
	b.await(ctx, Granted, some)
	b.loseOne(ctx, b.seats[0])
	for _, s := range b.seats {
		s.await(ctx, t, Granted, s.count(Granted)+some)
	}
	for _, kind := range []Kind{Refused, Released, Lost, NotHeld, AcquireUnclear} {
		b.awaitOne(ctx, kind)
	}
	stop()
	h := b.history()
	if err := h.Check(nil); err != nil {
		t.Error(err)
	}
	t.Logf("%d locks: %v", len(h.Locks), h.Counts)
}

// loseOne disconnects a Locker until it loses a lock.
func (b *bench) loseOne(ctx context.Context, s *seat) {
	b.Helper()
	requests := []locking.Request{exclusive("b").Request}
	var k *Held
	var err error
	for k == nil {
		if k, err = s.work.locker.Acquire(ctx, locking.Owner{Replica: s.work.replica}, requests,
			waitPolicy); ctx.Err() != nil {
			b.Fatal(err)
		}
	}
	s.cut.Store(true)
	select {
	case <-k.Context().Done():
	case <-ctx.Done():
		b.Fatal("the lock was never lost")
	}
	s.cut.Store(false)
	var lost *locking.LostError
	if err := k.Release(ctx); !errors.As(err, &lost) {
		b.Errorf("release of a lost lock: %v", err)
	}
}

// TestBrokenGrantsAreFound checks that the check detects broken grants. Each case breaks one rule.
// Of two conflicting locks, the check may first report that the older token came later.
func TestBrokenGrantsAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		rules  []Rule
		wanted []Request
		broken func(locking.Grants) locking.Grants
	}{
		{
			"ancestors are forgotten", []Rule{RuleHierarchy, RuleToken},
			[]Request{exclusive("a"), exclusive("a/x"), shared("a/x/1")},
			spoil(func(r *locking.Request) {
				r.Resource = on(fmt.Sprintf("%x", r.Resource.Path()), r.Mode, r.Slots).Resource
			}),
		},
		{
			"slots are not counted", []Rule{RuleSlots}, []Request{slot("api", 3)},
			spoil(func(r *locking.Request) { r.Slots = 1000 }),
		},
		{
			"writers pass for readers", []Rule{RuleShared, RuleToken},
			[]Request{exclusive("a"), shared("a")},
			spoil(func(r *locking.Request) { r.Mode = locking.Shared }),
		},
		{
			"slots pass for readers", []Rule{RuleModes, RuleToken},
			[]Request{slot("a", 30), shared("a")},
			spoil(func(r *locking.Request) { r.Mode, r.Slots = locking.Shared, 0 }),
		},
		{
			"tokens count down", []Rule{RuleToken}, []Request{exclusive("a"), shared("a")},
			func(g locking.Grants) locking.Grants { return countdown{g} },
		},
		{
			"claims are taken back", []Rule{RuleShared, RuleHierarchy, RuleToken},
			[]Request{exclusive("a"), shared("a"), exclusive("a/x"), shared("a/y")},
			func(g locking.Grants) locking.Grants { return hasty{g} },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, test.broken(memory.NewGrants()), test.wanted)
			ctx, cancel := context.WithTimeout(t.Context(), faultsLimit)
			defer cancel()
			stop := b.start(ctx)
			b.await(ctx, Granted, 50)
			stop()
			err := b.history().Check(nil)
			var found *Violation
			if !errors.As(err, &found) || !slices.Contains(test.rules, found.Rule) {
				t.Errorf("want one of %q, got %v", test.rules, err)
			}
			t.Log(err)
		})
	}
}

// spoil returns Grants that change the requests before they decide.
func spoil(change func(*locking.Request)) func(locking.Grants) locking.Grants {
	return func(g locking.Grants) locking.Grants { return spoiled{g, change} }
}

type spoiled struct {
	locking.Grants
	change func(*locking.Request)
}

func (g spoiled) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	changed := slices.Clone(requests)
	for i, r := range changed {
		changed[i].Requests = slices.Clone(r.Requests)
		for j := range changed[i].Requests {
			g.change(&changed[i].Requests[j])
		}
	}
	return g.Grants.Grant(ctx, session, changed)
}

// countdown gives each claim a smaller token than the previous one.
type countdown struct{ locking.Grants }

const countdownFrom = 1 << 40

func (g countdown) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	results, err := g.Grants.Grant(ctx, session, requests)
	for i, r := range results {
		if r.Token != 0 {
			results[i].Token = countdownFrom - r.Token
		}
	}
	return results, err
}

func (g countdown) Heartbeat(ctx context.Context,
	session uuid.UUID) (locking.HeartbeatReply, error) {
	reply, err := g.Grants.Heartbeat(ctx, session)
	claims := map[locking.Token]uuid.UUID{}
	for token, id := range maps.All(reply.Claims) {
		claims[countdownFrom-token] = id
	}
	reply.Claims = claims
	return reply, err
}

func (g countdown) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	real := make([]locking.Token, len(tokens))
	for i, token := range tokens {
		real[i] = countdownFrom - token
	}
	return g.Grants.Release(ctx, real)
}

// hasty releases every claim at once.
type hasty struct{ locking.Grants }

func (g hasty) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	results, err := g.Grants.Grant(ctx, session, requests)
	for _, r := range results {
		if _, lost := g.Release(ctx, []locking.Token{r.Token}); lost != nil {
			return nil, lost
		}
	}
	return results, err
}

// bench is several Lockers on one store in memory.
type bench struct {
	*testing.T
	seats []*seat
}

// seat is one Locker, its record, and its connection to the grants.
type seat struct {
	locking.Grants
	locker *locking.Locker
	work   *workload
	cut    atomic.Bool

	mu     sync.Mutex
	events []Event
}

func newBench(t *testing.T, g locking.Grants, wanted []Request) *bench {
	t.Helper()
	b := &bench{T: t}
	backend := memory.New()
	for n := range lockersInMemory {
		name := fmt.Sprint("locker", n)
		s := &seat{Grants: g}
		r := NewRecorder(s, name)
		var err error
		s.locker, err = locking.New(backend, locking.Options{
			Namespace: "bench", Lease: 10 * time.Second, Grants: r.Grants(s),
			Session: locking.Session{Replica: name, TTL: ttlInMemory},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.work = &workload{locker: r.Locker(s.locker), replica: name, workers: workersOfALocker,
			wanted: wanted, longest: longestHold, seed: uint64(n)}
		b.seats = append(b.seats, s)
	}
	return b
}

// start starts all Lockers. stop returns when they have ended.
func (b *bench) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, s := range b.seats {
		all.Go(func() {
			if err := s.work.beside(ctx, s.locker); err != nil {
				b.Error(err)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// await waits until each Locker has n events of the kind.
func (b *bench) await(ctx context.Context, kind Kind, n int) {
	b.Helper()
	for _, s := range b.seats {
		s.await(ctx, b.T, kind, n)
	}
}

// awaitOne waits until one of the Lockers has an event of the kind.
func (b *bench) awaitOne(ctx context.Context, kind Kind) {
	b.Helper()
	for !slices.ContainsFunc(b.seats, func(s *seat) bool { return s.count(kind) > 0 }) {
		pause(ctx, 5*time.Millisecond)
		if ctx.Err() != nil {
			b.Fatalf("nothing is %s: %v", kind, context.Cause(ctx))
		}
	}
}

func (b *bench) history() *History {
	b.Helper()
	var events []Event
	for _, s := range b.seats {
		events = append(events, s.events...)
	}
	h, err := New(events)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// Write takes a line of the Recorder.
func (s *seat) Write(line []byte) (int, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	return len(line), nil
}

func (s *seat) count(kind Kind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (s *seat) await(ctx context.Context, t *testing.T, kind Kind, n int) {
	t.Helper()
	for s.count(kind) < n {
		pause(ctx, 5*time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("%s has %d events %s, want %d: %v", s.work.replica, s.count(kind), kind, n,
				context.Cause(ctx))
		}
	}
}

var errCut = fmt.Errorf("line is cut: %w", locking.ErrUnavailable)

// send makes a call over the connection. Its answer may be lost.
func (s *seat) send(call func() error) error {
	if s.cut.Load() {
		return errCut
	}
	err := call()
	if s.cut.Load() || rand.N(100) == 0 {
		return errCut
	}
	return err
}

func (s *seat) OpenSession(ctx context.Context, session locking.Session) error {
	return s.send(func() error { return s.Grants.OpenSession(ctx, session) })
}

func (s *seat) Heartbeat(ctx context.Context,
	session uuid.UUID) (reply locking.HeartbeatReply, err error) {
	err = s.send(func() (err error) { reply, err = s.Grants.Heartbeat(ctx, session); return err })
	return reply, err
}

func (s *seat) EndSession(ctx context.Context, session uuid.UUID) error {
	return s.send(func() error { return s.Grants.EndSession(ctx, session) })
}

func (s *seat) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) (results []locking.GrantResult, err error) {
	if err = s.send(func() (err error) {
		results, err = s.Grants.Grant(ctx, session, requests)
		return err
	}); err != nil {
		return nil, err
	}
	return results, nil
}

func (s *seat) Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error {
	return s.send(func() error { return s.Grants.Withdraw(ctx, session, ids) })
}

func (s *seat) Release(ctx context.Context, tokens []locking.Token) (
	released []locking.ReleaseResult, err error) {
	if err = s.send(func() (err error) {
		released, err = s.Grants.Release(ctx, tokens)
		return err
	}); err != nil {
		return nil, err
	}
	return released, nil
}

func (s *seat) Sweep(ctx context.Context) (released []locking.Released, err error) {
	if err = s.send(func() (err error) {
		released, err = s.Grants.Sweep(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	return released, nil
}
