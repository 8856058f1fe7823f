package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var _ storage.Outbox = (*Store)(nil)

const (
	addSubscriptions = `
INSERT INTO holdfast_subscriptions (job, state, version, webhook)
SELECT d.job, q.value->>'state', d.version, q.value->>'webhook' FROM json_each(?1) q
CROSS JOIN holdfast_definitions d ON d.job = q.value->>'job' AND d.hash = q.value->>'hash'
    WHERE true
ON CONFLICT DO NOTHING`

	takeDeliveries = `
UPDATE holdfast_deliveries SET tries = tries + 1, next_at = ?2 + ?3 WHERE id IN (
    SELECT id FROM holdfast_deliveries WHERE webhook = ?1 AND next_at <= ?2 ORDER BY next_at
        LIMIT ?4)
RETURNING id, run, webhook, created_at, tries, coalesce(since, created_at), earlier_tries`

	pendingDelivery = `SELECT 1 FROM holdfast_deliveries WHERE webhook = ?1 AND next_at <= ?2
		LIMIT 1`

	endDelivery   = `DELETE FROM holdfast_deliveries WHERE id = ?1 AND tries = ?2`
	deferDelivery = `UPDATE holdfast_deliveries SET error = ?3, next_at = ?4, gave_up_at = ?5
		WHERE id = ?1 AND tries = ?2 AND earlier_tries = ?6`

	undelivered = `
SELECT d.id, d.webhook, d.run, coalesce(r.job, ''), d.state, d.created_at, d.tries, d.next_at,
    d.gave_up_at, d.error
FROM holdfast_deliveries d LEFT JOIN holdfast_runs r ON r.id = d.run`

	deliverAgain = `UPDATE holdfast_deliveries
		SET next_at = ?2, gave_up_at = NULL, since = ?2, earlier_tries = tries WHERE id = ?1`

	forgetDeliveries = `DELETE FROM holdfast_deliveries WHERE created_at < ?1`
)

type subscription struct {
	Job     string     `json:"job"`
	Hash    string     `json:"hash"`
	State   jobs.State `json:"state"`
	Webhook string     `json:"webhook"`
}

// subscribe writes the subscriptions of the definitions.
func subscribe(ctx context.Context, tx *sql.Tx, definitions []storage.Definition) error {
	var all []subscription
	for _, d := range definitions {
		for _, h := range d.Hooks {
			all = append(all, subscription{d.Name, d.Hash, h.State, h.Webhook})
		}
	}
	return execBatch(ctx, tx, addSubscriptions, all)
}

// TakeDeliveries implements storage.Outbox.
func (s *Store) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration,
	limit int) ([]storage.Delivery, error) {
	if err := s.exclusively("deliveries"); err != nil {
		return nil, err
	}
	var one int
	err := s.readers.QueryRowContext(ctx, pendingDelivery, webhook, micros(time.Now())).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	var taken []storage.Delivery
	err = s.write(ctx, "deliveries", func(tx *sql.Tx) error {
		taken = nil
		now := micros(time.Now())
		return each(ctx, tx, takeDeliveries, []any{webhook, now, lease.Microseconds(), limit},
			func(rows *sql.Rows) error {
				var d storage.Delivery
				var created, since int64
				err := rows.Scan(&d.ID, &d.Run.ID, &d.Webhook, &created, &d.Tries, &since,
					&d.EarlierTries)
				d.CreatedAt, d.TakenAt, d.Since = fromMicros(created), fromMicros(now),
					fromMicros(since)
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

// delivered returns a run for a webhook, without output. For a pruned run it returns only the id.
func (s *Store) delivered(ctx context.Context, id uuid.UUID) (storage.Record, error) {
	record, err := s.Run(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Record{ID: id}, nil
	}
	record.Output = ""
	return record, err
}

// SettleDelivery implements storage.Outbox.
func (s *Store) SettleDelivery(ctx context.Context, t storage.Settlement) (bool, error) {
	stood := false
	err := s.write(ctx, "delivery", func(tx *sql.Tx) error {
		now := time.Now()
		query, args := endDelivery, []any{t.ID, t.Tries}
		switch {
		case t.Delivered:
		case t.GiveUp:
			query, args = deferDelivery,
				append(args, output.PlainText(t.Error), nil, micros(now), t.EarlierTries)
		default:
			query, args = deferDelivery,
				append(args, output.PlainText(t.Error), micros(now.Add(t.Again)), nil,
					t.EarlierTries)
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

// UndeliveredHooks implements storage.Outbox.
func (s *Store) UndeliveredHooks(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	if err := f.Check(); err != nil {
		return nil, wrap("deliveries", err)
	}
	query, args := undeliveredQuery(f)
	found, err := undeliveredBy(ctx, s.readers, query, args...)
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(found)
	}
	return found, wrap("deliveries", err)
}

// undeliveredQuery scans the index of the failed deliveries and stops at the limit.
func undeliveredQuery(f storage.UndeliveredFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	query := undelivered + " WHERE d.tries > 0 AND d.error <> ''"
	if f.Webhook != "" {
		query += " AND d.webhook = " + arg(f.Webhook)
	}
	if f.Run != uuid.Nil {
		query += " AND d.run = " + arg(f.Run)
	}
	if f.GivenUp {
		query += " AND d.gave_up_at IS NOT NULL"
	}
	if f.Failing {
		query += " AND d.next_at IS NOT NULL"
	}
	if f.Before != nil {
		query += " AND (d.created_at, d.id) < (" + arg(micros(f.Before.CreatedAt)) + ", " +
			arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		query += " AND (d.created_at, d.id) > (" + arg(micros(f.After.CreatedAt)) + ", " +
			arg(f.After.ID) + ")"
	}
	order := " ORDER BY d.created_at DESC, d.id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY d.created_at, d.id"
	}
	return query + order + " LIMIT " + arg(storage.PageSize(f.Limit)), args
}

func undeliveredBy(ctx context.Context, from queryer, query string,
	args ...any) (found []storage.Undelivered, err error) {
	err = each(ctx, from, query, args, func(rows *sql.Rows) error {
		var u storage.Undelivered
		var created int64
		var next, gaveUp sql.NullInt64
		err := rows.Scan(&u.ID, &u.Webhook, &u.Run, &u.Job, &u.State, &created, &u.Tries, &next,
			&gaveUp, &u.Error)
		u.CreatedAt, u.NextAt, u.GaveUpAt = fromMicros(created), fromNullMicros(next),
			fromNullMicros(gaveUp)
		found = append(found, u)
		return err
	})
	return found, err
}

// DeliverAgain implements storage.Outbox.
func (s *Store) DeliverAgain(ctx context.Context, a storage.Action,
	delivery uuid.UUID) (u storage.Undelivered, err error) {
	err = s.action(ctx, a, "deliver_again", "delivery "+delivery.String(), &u,
		func(d *actionTx) error {
			found, err := changed(ctx, d.Tx, deliverAgain, delivery, d.now)
			if err == nil && !found {
				err = fmt.Errorf("delivery %s: %w", delivery, storage.ErrNotFound)
			}
			if err != nil {
				return err
			}
			one, err := undeliveredBy(ctx, d, undelivered+" WHERE d.id = ?1", delivery)
			if err != nil {
				return err
			}
			u, d.detail = one[0], map[string]any{"webhook": one[0].Webhook, "run": one[0].Run,
				"job": one[0].Job}
			return nil
		})
	return u, err
}

// ForgetDeliveries implements storage.Outbox.
func (s *Store) ForgetDeliveries(ctx context.Context) error {
	return s.write(ctx, "deliveries", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, forgetDeliveries,
			micros(time.Now().Add(-storage.DeliveryRetention)))
		return err
	})
}
