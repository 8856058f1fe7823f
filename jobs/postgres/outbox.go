package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var _ storage.Outbox = (*Store)(nil)

const (
	// A subquery as the time lets the index scan end before the deliveries for a later time.
	takeDeliveries = `
WITH ready AS (
    SELECT d.id FROM holdfast.deliveries d WHERE d.webhook = $1
        AND d.next_at <= (SELECT clock_timestamp())
    ORDER BY d.next_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE holdfast.deliveries d SET tries = d.tries + 1, next_at = clock_timestamp() + $2::interval
WHERE d.id = ANY(ARRAY(SELECT id FROM ready))
RETURNING d.id, d.run, d.webhook, d.created_at, clock_timestamp(), d.tries,
    coalesce(d.since, d.created_at), d.earlier_tries`

	// A delivery contains the result but not the output, which may be long and is text for people.
	deliveredRuns = `
SELECT` + recordColumns + `, '', o.result
FROM holdfast.runs r LEFT JOIN LATERAL (SELECT o.result FROM holdfast.outputs o
    WHERE o.run = r.id OFFSET 0) o ON true WHERE r.id = ANY($1)`

	// The conditions on tries match no index: deliveries_failed has all that have been tried.
	endDelivery   = `DELETE FROM holdfast.deliveries WHERE id = $1 AND tries + 0 = $2`
	deferDelivery = `
UPDATE holdfast.deliveries SET error = $3,
    next_at = CASE WHEN NOT $5 THEN clock_timestamp() + $4::interval END,
        gave_up_at = CASE WHEN $5 THEN clock_timestamp() END
WHERE id = $1 AND tries + 0 = $2 AND earlier_tries = $6`

	undelivered = `
SELECT d.id, d.webhook, d.run, coalesce(r.job, ''), d.state, d.created_at, d.tries, d.next_at,
    d.gave_up_at, d.error FROM holdfast.deliveries d
LEFT JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = d.run OFFSET 0) r ON true`

	deliverAgain = `
UPDATE holdfast.deliveries SET next_at = clock_timestamp(), gave_up_at = NULL,
    since = clock_timestamp(), earlier_tries = tries WHERE id = $1`

	forgetDeliveries = `DELETE FROM holdfast.deliveries
		WHERE created_at < clock_timestamp() - $1::interval`
)

// queueSubscriptions adds the subscriptions of the definitions.
func queueSubscriptions(b *pgx.Batch, definitions []*storage.Definition) {
	var names, hashes, states, webhooks []string
	for _, d := range definitions {
		for _, h := range d.Hooks {
			names, hashes = append(names, d.Name), append(hashes, d.Hash)
			states, webhooks = append(states, string(h.State)), append(webhooks, h.Webhook)
		}
	}
	if len(names) > 0 {
		b.Queue(addSubscriptions, names, hashes, states, webhooks)
	}
}

// TakeDeliveries implements storage.Outbox.
func (s *Store) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration,
	limit int) ([]storage.Delivery, error) {
	var taken []storage.Delivery
	var runs []rawID
	err := s.pipeline(ctx, "deliveries", func(b *pgx.Batch) {
		b.Queue(takeDeliveries, webhook, lease, limit).Query(func(rows pgx.Rows) (err error) {
			taken, err = pgx.CollectRows(rows,
				func(row pgx.CollectableRow) (d storage.Delivery, err error) {
					err = row.Scan(&d.ID, &d.Run.ID, &d.Webhook, &d.CreatedAt, &d.TakenAt, &d.Tries,
						&d.Since, &d.EarlierTries)
					d.CreatedAt, d.TakenAt, d.Since = d.CreatedAt.UTC(), d.TakenAt.UTC(),
						d.Since.UTC()
					return d, err
				})
			return err
		})
	})
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	for _, d := range taken {
		runs = append(runs, d.Run.ID)
	}
	rows, err := s.pool.Query(ctx, deliveredRuns, runs)
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	known := make(map[uuid.UUID]storage.Record, len(records))
	for _, r := range records {
		known[r.ID] = r
	}
	for i := range taken {
		if r, found := known[taken[i].Run.ID]; found {
			taken[i].Run = r
		}
	}
	return taken, nil
}

// SettleDelivery implements storage.Outbox.
func (s *Store) SettleDelivery(ctx context.Context, t storage.Settlement) (bool, error) {
	query, args := endDelivery, []any{t.ID, t.Tries}
	if !t.Delivered {
		query, args = deferDelivery,
			append(args, output.PlainText(t.Error), t.Again, t.GiveUp, t.EarlierTries)
	}
	tag, err := s.pool.Exec(ctx, query, args...)
	return tag.RowsAffected() > 0, wrap("delivery", err)
}

// UndeliveredHooks implements storage.Outbox.
func (s *Store) UndeliveredHooks(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	if err := f.Check(); err != nil {
		return nil, wrap("deliveries", err)
	}
	query, args := undeliveredQuery(f)
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	found, err := pgx.CollectRows(rows, scanUndelivered)
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
		return fmt.Sprintf("$%d", len(args))
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
		query += " AND (d.created_at, d.id) < (" + arg(f.Before.CreatedAt) + ", " +
			arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		query += " AND (d.created_at, d.id) > (" + arg(f.After.CreatedAt) + ", " + arg(f.After.ID) +
			")"
	}
	order := " ORDER BY d.created_at DESC, d.id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY d.created_at, d.id"
	}
	return query + order + " LIMIT " + arg(storage.PageSize(f.Limit)), args
}

func scanUndelivered(row pgx.CollectableRow) (u storage.Undelivered, err error) {
	err = row.Scan(&u.ID, &u.Webhook, &u.Run, &u.Job, &u.State, &u.CreatedAt, &u.Tries, &u.NextAt,
		&u.GaveUpAt, &u.Error)
	u.CreatedAt, u.NextAt, u.GaveUpAt = u.CreatedAt.UTC(), utc(u.NextAt), utc(u.GaveUpAt)
	return u, err
}

// DeliverAgain implements storage.Outbox.
func (s *Store) DeliverAgain(ctx context.Context, a storage.Action,
	delivery uuid.UUID) (u storage.Undelivered, err error) {
	err = s.action(ctx, a, "deliver_again", "delivery "+delivery.String(), &u,
		func(ctx context.Context, d *actionTx) error {
			tag, err := d.Exec(ctx, deliverAgain, delivery)
			if err == nil && tag.RowsAffected() == 0 {
				err = fmt.Errorf("delivery %s: %w", delivery, storage.ErrNotFound)
			}
			if err != nil {
				return err
			}
			rows, err := d.Query(ctx, undelivered+" WHERE d.id = $1", delivery)
			if err != nil {
				return err
			}
			u, err = pgx.CollectExactlyOneRow(rows, scanUndelivered)
			d.detail = map[string]any{"webhook": u.Webhook, "run": u.Run, "job": u.Job}
			return err
		})
	return u, err
}

// ForgetDeliveries implements storage.Outbox.
func (s *Store) ForgetDeliveries(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, forgetDeliveries, storage.DeliveryRetention)
	return wrap("deliveries", err)
}
