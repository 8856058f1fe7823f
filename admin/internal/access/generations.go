package access

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// generationsInterval is how old the generations in memory may be: a heartbeat.
	generationsInterval = 5 * time.Second
	generationsTimeout  = time.Second
)

// generations knows the generation of each user, which grows with each sign-out. A sign-in is valid
// if its generation is at least that of its user. It is safe for concurrent use.
type generations struct {
	shared storage.SignOuts // nil: sign-outs are valid for this replica
	log    zerolog.Logger

	reading chan struct{} // holds one element while a request reads the store

	mu      sync.Mutex // not held during calls of the store
	known   map[string]int64
	pending map[string]int64 // sign-outs that are not in the store yet
	read    time.Time        // when the last exchange that has ended began
	failing bool             // an error was logged
}

func newGenerations(shared storage.SignOuts, log zerolog.Logger) *generations {
	return &generations{shared: shared, log: log, known: make(map[string]int64),
		pending: make(map[string]int64), reading: make(chan struct{}, 1)}
}

// of returns the generation of a user, by an answer of the store that is at most maxAge old. While
// the store does not answer, it returns the last known generation.
func (g *generations) of(ctx context.Context, user string, maxAge time.Duration) int64 {
	if g.shared != nil {
		g.refresh(ctx, maxAge)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[user]
}

// refresh reads the generations if those in memory are older than maxAge. All requests wait for
// this reading. Shortly before that age, one request reads them, and the other requests do not
// wait.
func (g *generations) refresh(ctx context.Context, maxAge time.Duration) {
	oldest := time.Now().Add(-maxAge)
	if !g.readAfter(oldest) {
		g.reading <- struct{}{}
	} else {
		oldest = oldest.Add(generationsTimeout)
		if g.readAfter(oldest) {
			return
		}
		select {
		case g.reading <- struct{}{}:
		default:
			return
		}
	}
	defer func() { <-g.reading }()
	if g.readAfter(oldest) {
		return
	}
	began := time.Now()
	g.heard(g.exchange(ctx))
	g.mu.Lock()
	g.read = began // only now, so that other requests wait for the exchange
	g.mu.Unlock()
}

// readAfter reports whether the last reading began after a time.
func (g *generations) readAfter(oldest time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.read.After(oldest)
}

// exchange records pending sign-outs and reads the generations of all users.
func (g *generations) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), generationsTimeout)
	defer cancel()
	g.mu.Lock()
	pending := maps.Clone(g.pending)
	g.mu.Unlock()
	for user, generation := range pending {
		if err := g.record(ctx, user, generation); err != nil {
			return err
		}
	}
	shared, err := g.shared.Generations(ctx)
	if err != nil {
		return err
	}
	// Older cookies have expired, so the store has deleted these generations, or deletes them soon.
	oldest := time.Now().Add(-signInLifetime - clockMargin).UnixMicro()
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.known, func(_ string, known int64) bool { return known < oldest })
	for user, generation := range shared {
		g.known[user] = max(g.known[user], generation)
	}
	return nil
}

func (g *generations) record(ctx context.Context, user string, generation int64) error {
	if err := g.shared.EndSignIns(ctx, user, generation, signInLifetime+clockMargin); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending[user] == generation { // no later sign-out
		delete(g.pending, user)
	}
	return nil
}

// end ends all sign-ins of a user. generation is that of the cookie in the request. end reports
// whether the store has recorded the sign-out. If not, the sign-ins end only at this replica, and
// its next exchange repeats the record.
func (g *generations) end(ctx context.Context, user string, generation int64) bool {
	generation = g.next(user, generation)
	if g.shared == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), generationsTimeout)
	defer cancel()
	err := g.record(ctx, user, generation)
	g.heard(err)
	return err == nil
}

// next sets and returns the next generation of a user: the time in microseconds, or the given or
// known generation plus 1 if that is larger. A time is also larger than a generation that the store
// has deleted.
func (g *generations) next(user string, generation int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	generation = max(generation+1, g.known[user]+1, time.Now().UnixMicro())
	g.known[user] = generation
	if g.shared != nil {
		g.pending[user] = generation
	}
	return generation
}

func (g *generations) heard(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && !g.failing {
		g.log.Warn().Err(err).Msg("sign-outs can't be exchanged with the store: sign-ins that " +
			"ended at other replicas stay valid here until it answers")
	}
	g.failing = err != nil
}
