package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	replicaOf = `
SELECT replica FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL
    AND expires_at > clock_timestamp() AND NOT locks`

	setDraining = `
UPDATE holdfast.sessions SET draining = $2,
    drains = CASE WHEN draining = $2 OR cardinality(drains) >= $3 THEN drains
        ELSE drains || clock_timestamp() END
WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()`

	// Further attempts of a run stay with its session.
	firstAttempts = `
SELECT w.run FROM holdfast.waits w
CROSS JOIN LATERAL (SELECT FROM holdfast.runs r
    WHERE r.id = w.run AND r.state = 'waiting' AND r.attempt <= 1 OFFSET 0) r WHERE w.session = $1`

	freePlaces = `UPDATE holdfast.waits SET session = NULL WHERE run = ANY($2) AND session = $1`
)

// Drain implements storage.Actions.
func (s *Store) Drain(ctx context.Context, a storage.Action, session uuid.UUID, drain bool) error {
	action := "drain"
	if !drain {
		action = "undrain"
	}
	lost := fmt.Errorf("live session %s: %w", session, storage.ErrNotFound)
	var replica string
	if err := s.pool.QueryRow(ctx, replicaOf, session).Scan(&replica); err == pgx.ErrNoRows {
		return wrap(action, lost)
	} else if err != nil {
		return wrap(action, err)
	}
	return s.action(ctx, a, action, "replica "+replica, nil,
		func(ctx context.Context, d *actionTx) error {
			d.controlState, d.detail = true, map[string]any{"session": session}
			tag, err := d.Exec(ctx, setDraining, session, drain, 2*storage.MaxDrains)
			if err == nil && tag.RowsAffected() == 0 {
				err = lost
			}
			if err != nil || !drain {
				return err
			}
			return freeSession(ctx, d, session)
		})
}

// freeSession lets other replicas adopt the waiting runs of the session. It locks the waits in the
// order in which starts lock them.
func freeSession(ctx context.Context, tx pgx.Tx, session uuid.UUID) error {
	rows, err := tx.Query(ctx, firstAttempts, session)
	if err != nil {
		return err
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[rawID])
	if err != nil || len(runs) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, lockWaits, runs); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, freePlaces, session, runs)
	return err
}
