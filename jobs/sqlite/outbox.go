package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

var _ jobs.Outbox = (*Store)(nil)

const (
	addSubscriptions = `
INSERT INTO holdfast_subscriptions (job, state, version, webhook)
SELECT d.job, q.value->>'state', d.version, q.value->>'webhook' FROM json_each(?1) q
CROSS JOIN holdfast_definitions d ON d.job = q.value->>'job' AND d.hash = q.value->>'hash' WHERE true
ON CONFLICT DO NOTHING`

	takeDeliveries = `
UPDATE holdfast_deliveries SET tries = tries + 1, next_at = ?2 + ?3 WHERE id IN (
    SELECT id FROM holdfast_deliveries WHERE webhook = ?1 AND next_at <= ?2 ORDER BY next_at LIMIT ?4)
RETURNING id, run, webhook, created_at, tries`

	dueDelivery = `SELECT 1 FROM holdfast_deliveries WHERE webhook = ?1 AND next_at <= ?2 LIMIT 1`

	endDelivery   = `DELETE FROM holdfast_deliveries WHERE id = ?1 AND tries = ?2`
	deferDelivery = `UPDATE holdfast_deliveries SET error = ?3, next_at = ?4, gave_up_at = ?5 WHERE id = ?1 AND tries = ?2`

	undelivered = `
SELECT id, webhook, run, state, created_at, tries, next_at, gave_up_at, error FROM holdfast_deliveries
WHERE tries > 0 AND error <> '' ORDER BY created_at DESC, id LIMIT ?1`

	forgetDeliveries = `DELETE FROM holdfast_deliveries WHERE created_at < ?1`
)

type subscription struct {
	Job     string     `json:"job"`
	Hash    string     `json:"hash"`
	State   jobs.State `json:"state"`
	Webhook string     `json:"webhook"`
}

// subscribe writes what the definitions are subscribed to.
func subscribe(ctx context.Context, tx *sql.Tx, definitions []jobs.Definition) error {
	var all []subscription
	for _, d := range definitions {
		for _, h := range d.Hooks {
			all = append(all, subscription{d.Name, d.Hash, h.State, h.Webhook})
		}
	}
	return execBatch(ctx, tx, addSubscriptions, all)
}

// TakeDeliveries lends deliveries that are due. While none is, it does not ask
// for the writer.
func (s *Store) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]jobs.Delivery, error) {
	if err := s.exclusively("deliveries"); err != nil {
		return nil, err
	}
	var one int
	err := s.readers.QueryRowContext(ctx, dueDelivery, webhook, micros(time.Now())).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	var taken []jobs.Delivery
	err = s.write(ctx, "deliveries", func(tx *sql.Tx) error {
		taken = nil
		now := micros(time.Now())
		return each(ctx, tx, takeDeliveries, []any{webhook, now, lease.Microseconds(), limit}, func(rows *sql.Rows) error {
			var d jobs.Delivery
			var created int64
			err := rows.Scan(&d.ID, &d.Run.ID, &d.Webhook, &created, &d.Tries)
			d.CreatedAt, d.TakenAt = fromMicros(created), fromMicros(now)
			taken = append(taken, d)
			return err
		})
	})
	for i := range taken {
		if err != nil {
			return nil, err
		}
		taken[i].Run, err = s.delivered(ctx, taken[i].Run.ID)
	}
	return taken, err
}

// delivered returns a run as webhooks are told it: without output. One that is
// gone has its id alone.
func (s *Store) delivered(ctx context.Context, id uuid.UUID) (jobs.Record, error) {
	record, err := s.Run(ctx, id)
	if errors.Is(err, jobs.ErrNotFound) {
		return jobs.Record{ID: id}, nil
	}
	record.Output = ""
	return record, err
}

// SettleDelivery records what became of a try.
func (s *Store) SettleDelivery(ctx context.Context, t jobs.Settlement) (bool, error) {
	stood := false
	err := s.write(ctx, "delivery", func(tx *sql.Tx) error {
		now := time.Now()
		query, args := endDelivery, []any{t.ID, t.Tries}
		switch {
		case t.Delivered:
		case t.GiveUp:
			query, args = deferDelivery, append(args, jobs.PlainText(t.Error), nil, micros(now))
		default:
			query, args = deferDelivery, append(args, jobs.PlainText(t.Error), micros(now.Add(t.Again)), nil)
		}
		done, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		stood = n > 0
		return err
	})
	return stood, err
}

// UndeliveredHooks returns what has failed so far or was given up.
func (s *Store) UndeliveredHooks(ctx context.Context, limit int) ([]jobs.Undelivered, error) {
	var found []jobs.Undelivered
	err := each(ctx, s.readers, undelivered, []any{limit}, func(rows *sql.Rows) error {
		var u jobs.Undelivered
		var created int64
		var next, gaveUp sql.NullInt64
		err := rows.Scan(&u.ID, &u.Webhook, &u.Run, &u.State, &created, &u.Tries, &next, &gaveUp, &u.Error)
		u.CreatedAt, u.NextAt, u.GaveUpAt = fromMicros(created), fromNullMicros(next), fromNullMicros(gaveUp)
		found = append(found, u)
		return err
	})
	return found, wrap("deliveries", err)
}

// ForgetDeliveries deletes old ones.
func (s *Store) ForgetDeliveries(ctx context.Context) error {
	return s.write(ctx, "deliveries", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, forgetDeliveries, micros(time.Now().Add(-jobs.DeliveriesKept)))
		return err
	})
}
