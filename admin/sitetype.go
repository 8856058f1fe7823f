package admin

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Site renders pages and answers of the API. It is safe for concurrent use.
type Site struct {
	siteParts
	pageCache pageCache
}

// siteParts are what a Site needs.
type siteParts struct {
	log       zerolog.Logger
	pages     *pages
	guard     *access.Guard
	queries   *queries
	cluster   *cluster.Reader
	local     cluster.Local
	storeName string        // for people
	refresh   time.Duration // of open pages that get no events
	actions   bool          // operators may act
	hub       *hub          // nil: no events
}

// newSite returns a site whose guard has the policy. Attempts is as in access.NewGuard.
func newSite(parts siteParts, policy access.Policy, attempts storage.Attempts) (*Site, error) {
	s := &Site{siteParts: parts}
	var err error
	s.guard, err = access.NewGuard(policy, attempts, s, s.log)
	return s, err
}
