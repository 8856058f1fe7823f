package pages

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Site renders pages and answers of the API. It is safe for concurrent use.
type Site struct {
	Parts
	Guard     *access.Guard
	pageCache pageCache
	// used is when a request during which the state was read last ended; nil: none has.
	used atomic.Pointer[time.Time]
}

// Parts are what a Site needs.
type Parts struct {
	Log       zerolog.Logger
	Templates *Templates
	Queries   *Queries
	Cluster   *cluster.Reader
	Local     cluster.Local
	Prefix    mount.Prefix  // of the pages
	Refresh   time.Duration // of open pages that get no events
	Actions   bool          // operators may act
	// Events returns the address of the events after the last known position. Nil: no events.
	Events func(ctx context.Context, topics []storage.Topic) string
	// Poll queries the position, as a part of the queries of a page. Nil if Events is nil.
	Poll func(ctx context.Context)
}

// NewSite returns a site whose guard has the policy.
func NewSite(parts Parts, policy access.Policy, shared access.Shared) (*Site, error) {
	s := &Site{Parts: parts}
	var err error
	s.Guard, err = access.NewGuard(policy, parts.Prefix, shared, s, s.Log)
	return s, err
}

// query runs load as Queries.Run does. It notes the end of load if the state of the cluster was
// read meanwhile: until then load may have held a connection to a store that answers.
func (s *Site) query(ctx context.Context, load func(ctx context.Context) error) error {
	return s.Queries.Run(ctx, func(ctx context.Context) error {
		begin := time.Now()
		defer func() {
			if s.Cluster.AnsweredSince(begin) {
				s.used.Store(new(time.Now()))
			}
		}()
		return load(ctx)
	})
}

// usedSince reports whether requests used a store that answers at that time or later.
func (s *Site) usedSince(t time.Time) bool {
	used := s.used.Load()
	return s.Cluster.AnsweredSince(t) || used != nil && !used.Before(t)
}
