package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// differing finds the jobs that not all live replicas have in one definition. It reads all
// definitions of the live sessions, and is used only if they differ.
const differing = `
WITH live AS (
    SELECT DISTINCT ON (replica) id, replica FROM holdfast.sessions
    WHERE ended_at IS NULL AND expires_at > clock_timestamp() AND config_hash <> ''
        ORDER BY replica, started_at DESC, id
), registered AS (
    SELECT c.job, c.version, l.replica FROM live l
        JOIN holdfast.session_jobs c ON c.session = l.id
    JOIN holdfast.definitions d ON d.job = c.job AND d.version = c.version AND d.source = 'config'
), differing AS (
    SELECT job, max(version) AS newest FROM registered GROUP BY job
    HAVING min(version) <> max(version) OR count(*) < (SELECT count(*) FROM live) ORDER BY job
        LIMIT $1
)
SELECT a.job, l.replica, c.version IS NULL, c.version = a.newest
FROM differing a CROSS JOIN live l LEFT JOIN registered c ON c.job = a.job AND c.replica = l.replica
ORDER BY a.job, l.replica`

// Drift implements storage.History.
func (s *Store) Drift(ctx context.Context, limit int) ([]storage.JobDrift, error) {
	rows, err := s.views.Query(ctx, differing, limit)
	if err != nil {
		return nil, wrap("list drift", err)
	}
	var found []storage.JobDrift
	var job, replica string
	var without bool
	var newest *bool
	_, err = pgx.ForEachRow(rows, []any{&job, &replica, &without, &newest}, func() error {
		found = storage.AddDrift(found, job, replica, without, newest != nil && *newest)
		return nil
	})
	return found, wrap("list drift", err)
}
