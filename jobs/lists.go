package jobs

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// serverLists compares the stage-1 servers of the living replicas. Which server
// has a lock follows from the list and its order, so replicas whose lists
// differ do not see each other's locks there, and each conflict reaches the
// store.
type serverLists struct {
	store   History
	replica string
	own     string
	now     func() time.Time
	log     zerolog.Logger

	number atomic.Int64 // of different lists, as last looked
	differ bool
}

// compare looks at the sessions, and logs when lists begin to differ from
// this replica's and when they no longer do.
func (l *serverLists) compare(ctx context.Context) {
	if l.own == "" {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	replicas, err := l.store.Replicas(bounded)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Debug().Err(err).Msg("lists of lock servers not compared")
		}
		return
	}
	lists := map[string]bool{l.own: true}
	var others []string
	for _, r := range replicas {
		if r.EndedAt != nil || !l.now().Before(r.ExpiresAt) || r.LockServers == "" || r.Name == l.replica {
			continue // dead, of an older version, or this replica's own former life
		}
		lists[r.LockServers] = true
		if r.LockServers != l.own && !slices.Contains(others, r.Name) {
			others = append(others, r.Name)
		}
	}
	l.number.Store(int64(len(lists)))
	switch {
	case len(others) > 0 && !l.differ:
		l.log.Warn().Strs("differ_from", others).Msg("replicas have different lists of lock servers, and don't see each other's locks there")
	case len(others) == 0 && l.differ:
		l.log.Info().Msg("replicas have the same list of lock servers again")
	}
	l.differ = len(others) > 0
}
