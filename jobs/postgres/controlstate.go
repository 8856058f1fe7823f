package postgres

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// readControlState is one statement, so that its parts are consistent. A run that is to be
// cancelled may have moved to another session for its next attempt: its claim shows which session
// has it. OFFSET 0 makes PostgreSQL look up the claims of the few runs that are cancelled or
// watched. Otherwise it may read all claims of the session, with those deleted since the last
// vacuum.
const readControlState = `
SELECT m.control_version,
    coalesce((SELECT s.draining FROM holdfast.sessions s WHERE s.id = $1), false),
    (SELECT jsonb_object_agg(c.run, c.requested_by) FROM holdfast.cancels c CROSS JOIN LATERAL (
        SELECT k.session FROM holdfast.claims k WHERE k.run = c.run OFFSET 0) k
     WHERE k.session = $1),
    (SELECT jsonb_agg(w.run ORDER BY w.run) FROM holdfast.watches w CROSS JOIN LATERAL (
        SELECT k.session FROM holdfast.claims k WHERE k.run = w.run OFFSET 0) k
     WHERE k.session = $1 AND w.until > clock_timestamp()),
    CASE WHEN m.control_version <> $2 THEN (
        SELECT jsonb_agg(jsonb_build_object('id', p.id, 'target',
            jsonb_build_object('kind', p.kind, 'name', p.name),
            'paused_at', p.paused_at, 'paused_by', p.paused_by, 'reason', p.reason)
                ORDER BY p.paused_at, p.id)
        FROM holdfast.pauses p WHERE p.resumed_at IS NULL) END,
    CASE WHEN m.control_version <> $2 THEN (
        SELECT jsonb_agg(jsonb_build_object('job', s.job, 'spec', s.spec, 'version', s.version,
            'changed_at', s.changed_at,
            'changed_by', s.changed_by) ORDER BY s.job)
        FROM holdfast.specs s WHERE NOT s.removed) END
FROM holdfast.meta m`

// ControlState implements storage.Control.
func (s *Store) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	var state storage.ControlState
	err := s.pipeline(ctx, "read control state", func(b *pgx.Batch) {
		b.Queue(readControlState, session, since).Query(func(rows pgx.Rows) (err error) {
			state, err = pgx.CollectExactlyOneRow(rows, scanControlState)
			return err
		})
	})
	return state, err
}

func scanControlState(row pgx.CollectableRow) (storage.ControlState, error) {
	var o storage.ControlState
	var cancels, watched, pauses, specs []byte
	if err := row.Scan(&o.Generation, &o.Draining, &cancels, &watched, &pauses,
		&specs); err != nil {
		return o, err
	}
	for _, part := range []struct {
		encoded []byte
		into    any
	}{{cancels, &o.Cancels}, {watched, &o.Watched}, {pauses, &o.Pauses}, {specs, &o.Specs}} {
		if part.encoded == nil {
			continue
		}
		if err := json.Unmarshal(part.encoded, part.into); err != nil {
			return o, err
		}
	}
	for i := range o.Pauses {
		o.Pauses[i].At = o.Pauses[i].At.UTC()
	}
	for i := range o.Specs {
		o.Specs[i].ChangedAt = o.Specs[i].ChangedAt.UTC()
	}
	return o, nil
}
