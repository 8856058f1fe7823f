package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// twoServers is a backend with two servers. The second stores the keys that contain a word, and
// does not reply while it is broken.
type twoServers struct {
	locking.Backend
	word     string
	broken   atomic.Bool
	asked    atomic.Int64 // requests to the broken server
	answered atomic.Int64 // requests to the other server: gates
}

func (s *twoServers) Server(key string) string {
	if strings.Contains(key, s.word) {
		return "second:11211"
	}
	return "first:11211"
}

func (s *twoServers) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if s.broken.Load() && strings.Contains(key, s.word) {
		s.asked.Add(1)
		return fmt.Errorf("%w: second:11211", locking.ErrUnavailable)
	}
	if strings.Contains(key, ":gate:") {
		s.answered.Add(1)
	}
	return s.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (s *twoServers) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, s, items, ttl)
}

// While one of two servers does not reply, firings with all locks and gates on the other start as
// usual. Only firings with locks on the broken server are skipped.
func TestSilentServerAffectsOnlyItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		backend := &twoServers{Backend: c.locks, word: "orders"}
		locker, err := locking.New(backend,
			locking.Options{Namespace: c.store.ClusterID().String(), Lease: 30 * time.Second,
				Restore: true, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		o := c.options("a", takes(100*time.Millisecond), job(t, "broken", 10*time.Second, "orders"),
			job(t, "healthy", time.Second, "sales"))
		o.Locker, o.SkipWithoutLocks = locker, true
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		backend.broken.Store(true)
		time.Sleep(time.Minute + 500*time.Millisecond)
		stop()
		for _, r := range c.runs("healthy") {
			if r.State != jobs.Succeeded || r.StartedAt.Sub(r.ScheduledAt) > 100*time.Millisecond {
				t.Errorf("scheduled time %s of the job on the other server: %s %s, started %v",
					r.ScheduledAt, r.State, r.Reason, r.StartedAt)
			}
		}
		skipped := 0
		for _, r := range c.runs("broken") {
			if r.State == jobs.Succeeded {
				t.Errorf("scheduled time %s: got a run without its lock", r.ScheduledAt)
			}
			if r.State == jobs.Skipped && r.Reason == reasons.LocksUnavailable {
				skipped++
			}
		}
		if skipped < 5 {
			t.Errorf("%d skipped for want of locks, want 5 at least: %v", skipped,
				c.outcomes("broken"))
		}
		if gates := backend.answered.Load(); gates < 60 {
			t.Errorf("%d gates were asked of the server that answers, want 60 at least", gates)
		}
		if asked := backend.asked.Load(); asked > 31 {
			t.Errorf("the broken server was asked %d times in a minute, want once in two "+
				"seconds at most", asked)
		}
	})
}
