package sqlite

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// readMarks reads small tables, and the end of large ones. Tokens only grow, so that the sum of the
// live ones, with the youngest run, changes with each claim that is added or deleted.
const readMarks = `
WITH claimed AS (
    SELECT printf('%d %d', coalesce(max(token), 0), coalesce(sum(token), 0)) AS mark
        FROM holdfast_claims
), waiting AS (
    SELECT printf('%d %f %f', count(*), coalesce(total(created_at), 0),
        coalesce(total(wait_since), 0)) AS mark
    FROM (SELECT created_at, wait_since FROM holdfast_runs WHERE state = 'waiting'
        ORDER BY created_at LIMIT 10000)
), youngest AS (
    SELECT created_at, id FROM holdfast_runs ORDER BY created_at DESC, id DESC LIMIT 1
)
SELECT
    printf('%s %s %s %d', c.mark, w.mark, coalesce((SELECT id FROM youngest), ''),
        (SELECT count(*) FROM (
        SELECT 1 FROM holdfast_runs WHERE created_at > (SELECT created_at FROM youngest) - 2000000
            LIMIT 1000))),
    printf('%s %s', c.mark, w.mark),
    (SELECT printf('%d %d', definitions, control_version) FROM holdfast_meta),
    coalesce((SELECT id FROM holdfast_audit ORDER BY at DESC, id DESC LIMIT 1), ''),
    (SELECT printf('%d %d %d %d', count(*), coalesce(sum(tries), 0), coalesce(max(next_at), 0),
        coalesce(max(gave_up_at), 0))
        FROM (SELECT tries, next_at, gave_up_at FROM holdfast_deliveries LIMIT 1000))
FROM claimed c, waiting w`

// Marks implements storage.Marked.
func (s *Store) Marks(ctx context.Context) (storage.Marks, error) {
	var runs, locks, defined, audit, deliveries string
	if err := s.readers.QueryRowContext(ctx, readMarks).
		Scan(&runs, &locks, &defined, &audit, &deliveries); err != nil {
		return nil, wrap("read marks", err)
	}
	replicas, err := s.Replicas(ctx) // memory, and not the file, shows which sessions are live
	if err != nil {
		return nil, err
	}
	lives := ""
	for _, r := range replicas {
		_, live := s.sessions.get(r.Session)
		lives += fmt.Sprint(r.Session, r.Version, r.EndedAt != nil, live, r.Draining, r.Workers,
			r.NotReady, r.Stopping, r.Databases, r.ConfigHash, r.LockServers)
	}
	return storage.Marks{
		storage.TopicRuns: runs, storage.TopicLocks: locks, storage.TopicJobs: defined,
		storage.TopicReplicas: lives, storage.TopicAudit: audit, storage.TopicWebhooks: deliveries,
	}, nil
}
