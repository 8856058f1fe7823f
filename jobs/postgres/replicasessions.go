package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// replicaSessions reads the youngest sessions of each table. Both indexes are by time.
const replicaSessions = `
SELECT * FROM (
    (SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains
    FROM holdfast.sessions WHERE NOT locks AND NOT (removed AND ended_at IS NOT NULL)
        AND (ended_at IS NULL OR ended_at >= $1)
    ORDER BY started_at DESC LIMIT $2)
    UNION ALL
    (SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains
    FROM holdfast.past_sessions WHERE ended_at >= $1 ORDER BY ended_at DESC LIMIT $2)
    ORDER BY started_at DESC, id LIMIT $2) s
ORDER BY replica COLLATE "C", started_at, id`

// ReplicaSessions implements storage.History.
func (s *Store) ReplicaSessions(ctx context.Context, since time.Time,
	n int) ([]storage.ReplicaSession, error) {
	rows, err := s.views.Query(ctx, replicaSessions, since, n)
	if err != nil {
		return nil, wrap("list sessions of replicas", err)
	}
	found, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (r storage.ReplicaSession, err error) {
			var drains []time.Time
			err = row.Scan(&r.Session, &r.Name, &r.Version, &r.StartedAt, &r.ExpiresAt, &r.EndedAt,
				&r.Stopped, &drains)
			r.StartedAt, r.ExpiresAt, r.EndedAt = r.StartedAt.UTC(), r.ExpiresAt.UTC(),
				utc(r.EndedAt)
			r.Drains = storage.NewDrains(drains)
			return r, err
		})
	return found, wrap("list sessions of replicas", err)
}
