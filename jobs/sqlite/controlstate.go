package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	generation = `SELECT control_version FROM holdfast_meta`

	// Cancels of ended runs are left out. The cancel of a run inside a transaction is not written
	// yet.
	cancelsOf = `
SELECT c.run, c.requested_by FROM holdfast_cancels c CROSS
    JOIN holdfast_claims k ON k.run = c.run WHERE k.session = ?1
UNION ALL SELECT k.run, ?3 FROM holdfast_claims k WHERE k.run = ?2 AND k.session = ?1`
)

// ControlState implements storage.Control.
func (s *Store) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	var o storage.ControlState
	// Read the memory first, because a cancel moves from memory to the file.
	cancelled, by := s.fencing.cancelled()
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return o, wrap("read control state", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if err = tx.QueryRowContext(ctx, generation).Scan(&o.Generation); err == nil {
		err = sessionState(ctx, tx, session, &o)
	}
	if err == nil {
		o.Cancels, err = cancelsBy(ctx, tx, session, cancelled, by)
	}
	if err == nil && o.Generation != since {
		if o.Pauses, err = pausesBy(ctx, tx, activePauses); err == nil {
			o.Specs, err = specsBy(ctx, tx, addedSpecs)
		}
	}
	return o, wrap("read control state", err)
}

// sessionState fills in the parts that concern only the session.
func sessionState(ctx context.Context, tx *sql.Tx, session uuid.UUID,
	o *storage.ControlState) error {
	err := tx.QueryRowContext(ctx, isDraining, session).Scan(&o.Draining)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return each(ctx, tx, watchesOf, []any{session, micros(time.Now())}, func(rows *sql.Rows) error {
		var run uuid.UUID
		err := rows.Scan(&run)
		o.Watched = append(o.Watched, run)
		return err
	})
}

// cancelsBy returns the session's runs to cancel, with the actors. inside is a run whose cancel by
// actor is not in the file yet, or uuid.Nil.
func cancelsBy(ctx context.Context, tx *sql.Tx, session, inside uuid.UUID,
	actor string) (cancels map[uuid.UUID]string, err error) {
	err = each(ctx, tx, cancelsOf, []any{session, inside, actor}, func(rows *sql.Rows) error {
		var run uuid.UUID
		var by string
		err := rows.Scan(&run, &by)
		if cancels == nil {
			cancels = map[uuid.UUID]string{}
		}
		cancels[run] = by
		return err
	})
	return cancels, err
}
