package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	unendedReplica = `SELECT replica, expires_at FROM holdfast_sessions
		WHERE id = ?1 AND ended_at IS NULL`

	setDraining = `
UPDATE holdfast_sessions SET draining = ?2,
    drains = CASE WHEN draining = ?2 OR json_array_length(drains) >= ?4 THEN drains
        ELSE json_insert(drains, '$[#]', ?3) END
WHERE id = ?1`
)

// Drain implements storage.Actions.
func (s *Store) Drain(ctx context.Context, a storage.Action, session uuid.UUID, drain bool) error {
	action := "drain"
	if !drain {
		action = "undrain"
	}
	replica, err := s.liveReplica(ctx, session)
	if err != nil {
		return wrap(action, err)
	}
	return s.action(ctx, a, action, "replica "+replica, nil, func(d *actionTx) error {
		d.controlState, d.detail = true, map[string]any{"session": session}
		_, err := d.ExecContext(ctx, setDraining, session, drain, micros(time.Now()),
			2*storage.MaxDrains)
		return err
	})
}

// liveReplica returns the name of a live session. Beside a scheduler it decides by the expiry in
// the file.
func (s *Store) liveReplica(ctx context.Context, session uuid.UUID) (string, error) {
	var replica string
	var expires int64
	err := s.readers.QueryRowContext(ctx, unendedReplica, session).Scan(&replica, &expires)
	_, live := s.sessions.get(session)
	if s.lock == nil {
		now, _ := s.Now(ctx)
		live = fromMicros(expires).After(now)
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && !live {
		err = fmt.Errorf("live session %s: %w", session, storage.ErrNotFound)
	}
	return replica, err
}
