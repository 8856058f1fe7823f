package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Marks implements storage.Marked. This store has no deliveries.
func (s *Store) Marks(ctx context.Context) (storage.Marks, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var tokens jobs.Token
	for token := range s.claims {
		tokens += token
	}
	var waits int64
	for _, r := range s.waiting {
		waits += r.WaitSince.UnixMicro()
	}
	locks := fmt.Sprint(s.token, tokens, len(s.waiting), waits)
	return storage.Marks{
		storage.TopicRuns: fmt.Sprint(locks, " ", len(s.runs)), storage.TopicLocks: locks,
		storage.TopicJobs:     fmt.Sprint(s.definitions, s.control.generation),
		storage.TopicReplicas: s.replicasMark(),
		storage.TopicAudit:    fmt.Sprint(len(s.control.audit)),
		storage.TopicWebhooks: "",
	}, nil
}

func (s *Store) replicasMark() string {
	var live []string
	for id, l := range s.sessions {
		live = append(live, fmt.Sprint(id, l.live(s.now()), l.draining, l.replicaStatus.Workers,
			l.replicaStatus.NotReady, l.replicaStatus.Stopping, l.replicaStatus.Databases))
	}
	slices.SortFunc(live, cmp.Compare[string])
	return fmt.Sprint(live)
}
