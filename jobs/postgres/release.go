package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// releaseClaims returns the tokens of the claims that exist, and whether each is released. An
	// open transaction has locked the others.
	releaseClaims = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims WHERE token = ANY($1) AND owner IS NOT NULL ORDER BY token
            FOR UPDATE SKIP LOCKED))
    RETURNING token
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = ANY(ARRAY(SELECT token FROM gone))
)
SELECT token, token = ANY(ARRAY(SELECT token FROM gone)) FROM holdfast.claims
    WHERE token = ANY($1) AND owner IS NOT NULL`

	withdrawWaits = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY($2) AND (session = $1) IS TRUE AND owner IS NOT NULL
        RETURNING run
)
DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))`

	withdrawClaims = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c
            WHERE c.run = ANY($2) AND (c.session = $1) IS TRUE AND c.owner IS NOT NULL))
        ORDER BY token FOR UPDATE))
    RETURNING token
)
DELETE FROM holdfast.grants WHERE token + 0 = ANY(ARRAY(SELECT token FROM gone))`
)

// Release gives claims back, except those that an open transaction has locked.
func (g grants) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	if err := checkBatch(len(tokens)); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	results := make([]locking.ReleaseResult, len(tokens))
	err := g.pipeline(ctx, "release", func(b *pgx.Batch) {
		b.Queue(releaseClaims, tokens).Query(func(rows pgx.Rows) error {
			found := make(map[locking.Token]locking.ReleaseResult, len(tokens))
			var token locking.Token
			var gone bool
			_, err := pgx.ForEachRow(rows, []any{&token, &gone}, func() error {
				found[token] = locking.ReleaseInUse
				if gone {
					found[token] = locking.ReleaseDone
				}
				return nil
			})
			for i, token := range tokens {
				results[i] = found[token]
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// Withdraw ends the waits of the session's locks, and releases the claims of locks that were
// granted meanwhile.
func (g grants) Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error {
	if err := checkBatch(len(ids)); err != nil {
		return fmt.Errorf("withdrawal: %w", err)
	}
	runs := make([]rawID, len(ids))
	for i, id := range ids {
		runs[i] = id
	}
	return g.pipeline(ctx, "withdraw locks", func(b *pgx.Batch) {
		b.Queue(lockWaits, runs)
		b.Queue(withdrawWaits, session, runs)
		b.Queue(withdrawClaims, session, runs)
	})
}

// Sweep ends expired sessions that have locks, and returns the locks.
func (g grants) Sweep(ctx context.Context) ([]locking.Released, error) {
	var released []locking.Released
	var left leftover
	sweep := uuid.New()
	err := g.pipeline(ctx, "sweep", func(b *pgx.Batch) {
		b.Queue(markExpired, sweep, true)
		queueReleases(b, sweep, &released)
		b.Queue(endSwept, sweep)
		g.store.queueHeld(b, sweep, true, &left)
		b.Queue(forgetSessions, storage.SessionsKept)
		b.Queue(forgetPast, storage.ReplicaSessionsKept)
		b.Queue(forgetFences, fencesKept)
	})
	if err != nil {
		return nil, err
	}
	// Only this answer can report the swept locks. The next sweep tries again to end the backends.
	if _, err := g.store.endHeld(ctx, left); err != nil {
		g.store.log.Warn().Err(err).Msg("end of a blocking backend failed")
	}
	return released, nil
}

// queueReleases deletes the claims and the waits of the sweep's sessions.
func queueReleases(b *pgx.Batch, sweep uuid.UUID, released *[]locking.Released) {
	b.Queue(endSweptWaits, sweep)
	b.Queue(releaseSwept, sweep).Query(func(rows pgx.Rows) (err error) {
		*released, err = pgx.CollectRows(rows, releasedLock)
		return err
	})
}

func releasedLock(row pgx.CollectableRow) (r locking.Released, err error) {
	var requests []byte
	if err = row.Scan(&r.ID, &r.Token, &r.Owner, &requests); err == nil && requests != nil {
		r.Requests, err = parseRequests(requests)
	}
	return r, err
}
