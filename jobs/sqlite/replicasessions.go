package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const replicaSessions = `
SELECT * FROM (
    SELECT * FROM (
        SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains
        FROM holdfast_sessions WHERE ended_at IS NULL OR ended_at >= ?1 AND NOT removed
        UNION ALL
        SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains
        FROM holdfast_past_sessions WHERE ended_at >= ?1)
    ORDER BY started_at DESC, id LIMIT ?2)
ORDER BY replica, started_at, id`

// ReplicaSessions implements storage.History.
func (s *Store) ReplicaSessions(ctx context.Context, since time.Time,
	n int) ([]storage.ReplicaSession, error) {
	var found []storage.ReplicaSession
	err := each(ctx, s.readers, replicaSessions, []any{micros(since), n},
		func(rows *sql.Rows) error {
			var r storage.ReplicaSession
			var started, expires int64
			var ended sql.NullInt64
			var drains string
			err := rows.Scan(&r.Session, &r.Name, &r.Version, &started, &expires, &ended,
				&r.Stopped, &drains)
			if err != nil {
				return err
			}
			r.StartedAt, r.ExpiresAt = fromMicros(started), s.expiry(r.Session, expires)
			r.EndedAt = fromNullMicros(ended)
			r.Drains, err = decodeDrains(drains)
			found = append(found, r)
			return err
		})
	return found, wrap("list sessions of replicas", err)
}

func decodeDrains(text string) ([]storage.Drain, error) {
	var stored []int64
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, err
	}
	times := make([]time.Time, len(stored))
	for i, at := range stored {
		times[i] = fromMicros(at)
	}
	return storage.NewDrains(times), nil
}
