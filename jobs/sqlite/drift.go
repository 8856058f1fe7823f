package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// differing finds the jobs that not all live sessions have in one definition.
const differing = `
WITH live AS (
    SELECT s.id, s.replica FROM json_each(?1) q CROSS JOIN holdfast_sessions s ON s.id = q.value
    WHERE s.config_hash <> '' AND NOT EXISTS (
        SELECT 1 FROM json_each(?1) p CROSS JOIN holdfast_sessions o ON o.id = p.value
        WHERE o.replica = s.replica AND o.config_hash <> ''
            AND (o.started_at, o.id) > (s.started_at, s.id))
), registered AS (
    SELECT c.job, c.version, l.replica FROM live l
        JOIN holdfast_session_jobs c ON c.session = l.id
    JOIN holdfast_definitions d ON d.job = c.job AND d.version = c.version AND d.source = 'config'
), differing AS (
    SELECT job, max(version) AS newest FROM registered GROUP BY job
    HAVING min(version) <> max(version) OR count(*) < (SELECT count(*) FROM live) ORDER BY job
        LIMIT ?2
)
SELECT a.job, l.replica, c.version IS NULL, coalesce(c.version = a.newest, 0)
FROM differing a CROSS JOIN live l LEFT JOIN registered c ON c.job = a.job AND c.replica = l.replica
ORDER BY a.job, l.replica`

// Drift implements storage.History.
func (s *Store) Drift(ctx context.Context, limit int) ([]storage.JobDrift, error) {
	live, err := encode(s.sessions.liveIDs())
	if err != nil {
		return nil, err
	}
	var found []storage.JobDrift
	err = each(ctx, s.readers, differing, []any{live, limit}, func(rows *sql.Rows) error {
		var job, replica string
		var without, newest bool
		err := rows.Scan(&job, &replica, &without, &newest)
		found = storage.AddDrift(found, job, replica, without, newest)
		return err
	})
	return found, wrap("list drift", err)
}
