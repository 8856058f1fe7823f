package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// startDelayLifetime is the lifetime of cached start delays, which change slowly.
const startDelayLifetime = 10 * time.Minute

// startDelays caches the usual start delays of jobs. It is safe for concurrent use.
type startDelays struct {
	mu    sync.Mutex
	known map[string]cachedDelay
}

type cachedDelay struct {
	storage.Typical
	at time.Time // by the store's clock
}

// get returns the known delays of the jobs, and the jobs whose delays are unknown or too old.
func (c *startDelays) get(of map[string]bool, now time.Time) (known map[string]storage.Typical,
	unknown []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = make(map[string]storage.Typical, len(of))
	for job := range of {
		if cached, ok := c.known[job]; ok && now.Sub(cached.at) < startDelayLifetime {
			known[job] = cached.Typical
		} else {
			unknown = append(unknown, job)
		}
	}
	return known, unknown
}

// put caches the delays of jobs and forgets those that are too old.
func (c *startDelays) put(found map[string]storage.Typical, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[string]cachedDelay)
	}
	for job, cached := range c.known {
		if now.Sub(cached.at) >= startDelayLifetime {
			delete(c.known, job)
		}
	}
	for job, typical := range found {
		c.known[job] = cachedDelay{typical, now}
	}
}

// startDelays returns how long after their scheduled times the last runs of each job started.
func (r *Reader) startDelays(ctx context.Context, of map[string]bool,
	now time.Time) (map[string]storage.Typical, error) {
	delays, unknown := r.delays.get(of, now)
	if len(unknown) == 0 {
		return delays, nil
	}
	outcomes, err := r.Outcomes.Last(ctx, now, unknown, outcomesOfJob)
	if err != nil {
		return nil, err
	}
	found := make(map[string]storage.Typical, len(unknown))
	for _, job := range unknown {
		found[job] = typicalDelay(outcomes[job])
		delays[job] = found[job]
	}
	r.delays.put(found, now)
	return delays, nil
}

// typicalDelay returns how long after their scheduled times runs started.
func typicalDelay(outcomes []storage.Outcome) storage.Typical {
	var delays []time.Duration
	for _, o := range outcomes {
		if o.StartedAt != nil {
			delays = append(delays, max(0, o.StartedAt.Sub(o.ScheduledAt)))
		}
	}
	return storage.NewTypical(delays)
}
