package memory_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

func TestGrantsConformance(t *testing.T) {
	lockingtest.RunGrants(t, func(*testing.T) lockingtest.GrantsFixture {
		grants := memory.NewGrants()
		return lockingtest.GrantsFixture{Connect: func(*testing.T) locking.Grants { return grants }}
	}, synctest.Test)
}

func TestSessionExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := memory.NewGrants()
		s := open(t, g, "one", 15*time.Second)
		time.Sleep(10 * time.Second)
		if _, err := g.Heartbeat(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15*time.Second - time.Nanosecond)
		if _, err := g.Grant(t.Context(), s, nil); err != nil {
			t.Errorf("expired early: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := g.Heartbeat(t.Context(), s); !errors.Is(err, locking.ErrSessionLost) {
			t.Errorf("revived: %v", err)
		}
	})
}

func open(t testing.TB, g *memory.Grants, replica string, ttl time.Duration) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if err := g.OpenSession(t.Context(),
		locking.Session{ID: id, Replica: replica, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	return id
}

// modelLock is a lock of the model, in the order in which it was granted or queued.
type modelLock struct {
	locking.GrantRequest
	token locking.Token
}

// model scans all locks for each request.
type model struct {
	grants         *memory.Grants
	session        uuid.UUID
	holds, waiting []modelLock
}

func (m *model) refuses(r locking.GrantRequest) bool {
	ahead := m.holds
	for _, w := range m.waiting {
		if w.ID == r.ID {
			break
		}
		ahead = append(ahead[:len(ahead):len(ahead)], w)
	}
	for _, a := range r.Requests {
		taken := 0
		for _, other := range ahead {
			for _, b := range other.Requests {
				if locking.Conflict(a, b) {
					return true
				}
				if a.Mode == locking.Slotted && a.Resource == b.Resource {
					taken++
				}
			}
		}
		if a.Mode == locking.Slotted && taken >= a.Slots {
			return true
		}
	}
	return false
}

func without(list []modelLock, id uuid.UUID) []modelLock {
	var kept []modelLock
	for _, s := range list {
		if s.ID != id {
			kept = append(kept, s)
		}
	}
	return kept
}

func (m *model) ask(t *rapid.T) {
	var r locking.GrantRequest
	if len(m.waiting) > 0 && rapid.Bool().Draw(t, "again") {
		r = rapid.SampledFrom(m.waiting).Draw(t, "waiter").GrantRequest
	} else {
		r = locking.GrantRequest{ID: uuid.New(), Requests: anyRequests(t), Reserve: time.Hour}
	}
	r.Wait = rapid.Bool().Draw(t, "wait")
	results, err := m.grants.Grant(t.Context(), m.session, []locking.GrantRequest{r})
	if err != nil {
		t.Fatal(err)
	}
	refused := m.refuses(r)
	if refused != (results[0].Blocker != nil) {
		t.Fatalf("%v: %+v, want it to be refused: %v", r.Requests, results[0], refused)
	}
	switch known := len(without(m.waiting, r.ID)) < len(m.waiting); {
	case !refused:
		m.waiting = without(m.waiting, r.ID)
		m.holds = append(m.holds, modelLock{r, results[0].Token})
	case r.Wait && !known:
		m.waiting = append(m.waiting, modelLock{GrantRequest: r})
	}
}

func (m *model) release(t *rapid.T) {
	if len(m.holds) == 0 {
		t.Skip("nothing is held")
	}
	h := rapid.SampledFrom(m.holds).Draw(t, "holder")
	if released, err := m.grants.Release(t.Context(), []locking.Token{h.token}); err != nil ||
		released[0] != locking.ReleaseDone {
		t.Fatalf("release of %d: %v, %v", h.token, released, err)
	}
	m.holds = without(m.holds, h.ID)
}

func (m *model) withdraw(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("nothing waits")
	}
	w := rapid.SampledFrom(m.waiting).Draw(t, "waiter")
	if err := m.grants.Withdraw(t.Context(), m.session, []uuid.UUID{w.ID}); err != nil {
		t.Fatal(err)
	}
	m.waiting = without(m.waiting, w.ID)
}

func (m *model) compare(t *rapid.T) {
	heartbeat, err := m.grants.Heartbeat(t.Context(), m.session)
	if err != nil || len(heartbeat.Claims) != len(m.holds) ||
		len(heartbeat.Waiting) != len(m.waiting) {
		t.Fatalf("%d claims and %d waiting (%v), want %d and %d", len(heartbeat.Claims),
			len(heartbeat.Waiting), err, len(m.holds), len(m.waiting))
	}
}

// anyRequests draws from few names, so that conflicts are common.
func anyRequests(t *rapid.T) []locking.Request {
	var requests []locking.Request
	for _, name := range rapid.SliceOfNDistinct(
		rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a/d", "ab", "e"}), 1, 3, rapid.ID).Draw(t,
		"names") {
		resource, err := locking.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		r := locking.Request{Resource: resource,
			Mode: rapid.SampledFrom([]locking.Mode{locking.Exclusive, locking.Shared,
				locking.Slotted}).Draw(t, "mode")}
		if r.Mode == locking.Slotted {
			r.Slots = rapid.IntRange(1, 3).Draw(t, "slots")
		}
		requests = append(requests, r)
	}
	normalized, err := locking.Normalize(requests)
	if err != nil {
		t.Fatal(err)
	}
	return normalized
}

// TestGrantsMatchFullSearch compares the index with a scan.
func TestGrantsMatchFullSearch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{grants: memory.NewGrants()}
		m.session = open(t, m.grants, "one", time.Hour)
		rt.Repeat(map[string]func(*rapid.T){"": m.compare, "ask": m.ask, "release": m.release,
			"withdraw": m.withdraw})
	})
}

// BenchmarkGrants grants and releases one lock while others hold 10,000 names.
func BenchmarkGrants(b *testing.B) {
	wanted := map[string]locking.Request{
		"flat":       request(b, "flat", locking.Exclusive),
		"beneath":    request(b, "tenant/17/free", locking.Exclusive),
		"deep":       request(b, "tenant/17/free/a/b/c/d/e/f/g/h", locking.Exclusive),
		"shared top": request(b, "readers", locking.Shared),
		"refused":    request(b, "tenant", locking.Exclusive),
	}
	for _, held := range []int{0, 10_000} {
		for _, name := range []string{"flat", "beneath", "deep", "shared top", "refused"} {
			b.Run(fmt.Sprintf("%d/%s", held, name), func(b *testing.B) {
				g, s := grantsWithHeld(b, held)
				for b.Loop() {
					grantAndRelease(b, g, s, wanted[name])
				}
			})
		}
	}
}

// grantsWithHeld returns grants with that number of locks, at least one. Half of the
// names are written and half are read.
func grantsWithHeld(b *testing.B, held int) (*memory.Grants, uuid.UUID) {
	b.Helper()
	g := memory.NewGrants()
	s := open(b, g, "one", time.Hour)
	hold := func(name string, mode locking.Mode) {
		r := locking.GrantRequest{ID: uuid.New(),
			Requests: []locking.Request{request(b, name, mode)}}
		if results, err := g.Grant(b.Context(), s, []locking.GrantRequest{r}); err != nil ||
			results[0].Token == 0 {
			b.Fatalf("%s: got %+v (%v), want it granted", name, results, err)
		}
	}
	hold("tenant/held", locking.Exclusive)
	for i := range held / 2 {
		hold(fmt.Sprintf("tenant/%d/%d", i%100, i), locking.Exclusive)
		hold(fmt.Sprintf("readers/%d/%d", i%100, i), locking.Shared)
	}
	return g, s
}

func grantAndRelease(b *testing.B, g *memory.Grants, s uuid.UUID, wanted locking.Request) {
	r := locking.GrantRequest{ID: uuid.New(), Requests: []locking.Request{wanted}}
	results, err := g.Grant(b.Context(), s, []locking.GrantRequest{r})
	if err != nil {
		b.Fatal(err)
	}
	if results[0].Blocker != nil {
		return
	}
	if _, err := g.Release(b.Context(), []locking.Token{results[0].Token}); err != nil {
		b.Fatal(err)
	}
}

func request(t testing.TB, name string, mode locking.Mode) locking.Request {
	t.Helper()
	resource, err := locking.Path(name)
	if err != nil {
		t.Fatal(err)
	}
	return locking.Request{Resource: resource, Mode: mode}
}
