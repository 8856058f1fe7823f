package access

import (
	"context"
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

	mu      sync.Mutex // held during queries
	known   map[string]int64
	pending map[string]bool // users whose sign-out is not in the store yet
	read    time.Time
	failing bool // an error was logged
}

func newGenerations(shared storage.SignOuts, log zerolog.Logger) *generations {
	return &generations{shared: shared, log: log, known: make(map[string]int64),
		pending: make(map[string]bool)}
}

// of returns the generation of a user, by an answer of the store that is at most maxAge old. While
// the store does not answer, it returns the last known generation.
func (g *generations) of(ctx context.Context, user string, maxAge time.Duration) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.shared != nil && now.Sub(g.read) >= maxAge {
		g.read = now
		g.heard(g.refresh(ctx))
	}
	return g.known[user]
}

// refresh records pending sign-outs and reads the generations of all users.
func (g *generations) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), generationsTimeout)
	defer cancel()
	for user := range g.pending {
		if err := g.record(ctx, user); err != nil {
			return err
		}
	}
	shared, err := g.shared.Generations(ctx)
	if err != nil {
		return err
	}
	for user, generation := range shared {
		g.known[user] = max(g.known[user], generation)
	}
	return nil
}

func (g *generations) record(ctx context.Context, user string) error {
	generation, err := g.shared.EndSignIns(ctx, user, signInLifetime+clockMargin)
	if err != nil {
		return err
	}
	delete(g.pending, user)
	g.known[user] = max(g.known[user], generation)
	return nil
}

// end ends all sign-ins of a user. It reports whether the store has recorded that. If not, the
// sign-ins end at this replica, and it tries again with the next refresh.
func (g *generations) end(ctx context.Context, user string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[user]++
	if g.shared == nil {
		return true
	}
	g.pending[user] = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), generationsTimeout)
	defer cancel()
	err := g.record(ctx, user)
	g.heard(err)
	return err == nil
}

func (g *generations) heard(err error) {
	if err != nil && !g.failing {
		g.log.Warn().Err(err).Msg("sign-outs can't be exchanged with the store: sign-ins that " +
			"ended at other replicas stay valid here until it answers")
	}
	g.failing = err != nil
}
