package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

var _ jobs.Outbox = (*Store)(nil)

const (
	takeDeliveries = `
WITH due AS (
    SELECT d.id FROM holdfast.deliveries d WHERE d.webhook = $1 AND d.next_at <= clock_timestamp()
    ORDER BY d.next_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE holdfast.deliveries d SET tries = d.tries + 1, next_at = clock_timestamp() + $2::interval
WHERE d.id = ANY(ARRAY(SELECT id FROM due)) RETURNING d.id, d.run, d.webhook, d.created_at, clock_timestamp(), d.tries`

	// Results are told, output is not: it may be long, and is text for people.
	deliveredRuns = `
SELECT` + recordColumns + `, '', o.result
FROM holdfast.runs r LEFT JOIN LATERAL (SELECT o.result FROM holdfast.outputs o WHERE o.run = r.id OFFSET 0) o ON true WHERE r.id = ANY($1)`

	endDelivery   = `DELETE FROM holdfast.deliveries WHERE id = $1 AND tries = $2`
	deferDelivery = `
UPDATE holdfast.deliveries SET error = $3, next_at = CASE WHEN NOT $5 THEN clock_timestamp() + $4::interval END, gave_up_at = CASE WHEN $5 THEN clock_timestamp() END
WHERE id = $1 AND tries = $2`

	undelivered = `
SELECT id, webhook, run, state, created_at, tries, next_at, gave_up_at, error FROM holdfast.deliveries
WHERE tries > 0 AND error <> '' ORDER BY created_at DESC, id LIMIT $1`

	forgetDeliveries = `DELETE FROM holdfast.deliveries WHERE created_at < clock_timestamp() - $1::interval`
)

// queueSubscriptions adds what the definitions are subscribed to.
func queueSubscriptions(b *pgx.Batch, definitions []jobs.Definition) {
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

// TakeDeliveries lends deliveries that are due.
func (s *Store) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration, limit int) ([]jobs.Delivery, error) {
	var taken []jobs.Delivery
	var runs []rawID
	err := s.pipeline(ctx, "deliveries", func(b *pgx.Batch) {
		b.Queue(takeDeliveries, webhook, lease, limit).Query(func(rows pgx.Rows) (err error) {
			taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d jobs.Delivery, err error) {
				err = row.Scan(&d.ID, &d.Run.ID, &d.Webhook, &d.CreatedAt, &d.TakenAt, &d.Tries)
				d.CreatedAt, d.TakenAt = d.CreatedAt.UTC(), d.TakenAt.UTC()
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
	known := make(map[uuid.UUID]jobs.Record, len(records))
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

// SettleDelivery records what became of a try.
func (s *Store) SettleDelivery(ctx context.Context, t jobs.Settlement) (bool, error) {
	query, args := endDelivery, []any{t.ID, t.Tries}
	if !t.Delivered {
		query, args = deferDelivery, append(args, jobs.PlainText(t.Error), t.Again, t.GiveUp)
	}
	tag, err := s.pool.Exec(ctx, query, args...)
	return tag.RowsAffected() > 0, wrap("delivery", err)
}

// UndeliveredHooks returns what has failed so far or was given up.
func (s *Store) UndeliveredHooks(ctx context.Context, limit int) ([]jobs.Undelivered, error) {
	rows, err := s.views.Query(ctx, undelivered, limit)
	if err != nil {
		return nil, wrap("deliveries", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u jobs.Undelivered, err error) {
		err = row.Scan(&u.ID, &u.Webhook, &u.Run, &u.State, &u.CreatedAt, &u.Tries, &u.NextAt, &u.GaveUpAt, &u.Error)
		u.CreatedAt, u.NextAt, u.GaveUpAt = u.CreatedAt.UTC(), utc(u.NextAt), utc(u.GaveUpAt)
		return u, err
	})
	return found, wrap("deliveries", err)
}

// ForgetDeliveries deletes old ones.
func (s *Store) ForgetDeliveries(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, forgetDeliveries, jobs.DeliveriesKept)
	return wrap("deliveries", err)
}
