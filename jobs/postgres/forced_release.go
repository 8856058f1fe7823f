package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	takeClaimNow = `SELECT FROM holdfast.claims WHERE token = $1 FOR UPDATE NOWAIT`

	grantStands = `SELECT EXISTS (SELECT FROM holdfast.grants WHERE resource = $1 AND token = $2)`

	resourceHolders = `
SELECT coalesce(c.owner ->> 'job', r.job, ''), coalesce(c.owner ->> 'replica', r.replica, ''),
    g.token
FROM holdfast.grants g JOIN holdfast.claims c USING (token) LEFT
    JOIN holdfast.runs r ON r.id = c.run
WHERE g.resource = $1 ORDER BY g.token LIMIT 3`

	// heldLock reads the lock of a token.
	heldLock = `
SELECT c.run, c.token, coalesce(c.owner,
    jsonb_build_object('replica', r.replica, 'job', r.job, 'run_id', r.id)),
    (SELECT jsonb_agg(jsonb_build_object('resource', g.resource, 'mode', g.mode, 'slots', g.slots)
        ORDER BY g.resource)
     FROM holdfast.grants g WHERE g.token + 0 = c.token)
FROM holdfast.claims c LEFT JOIN holdfast.runs r ON r.id = c.run WHERE c.token = $1`

	// forceRelease ends a run without a successor.
	forceRelease = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = $1 RETURNING token, run, owner
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = $1 RETURNING resource, mode, slots
), lost AS (
    UPDATE holdfast.runs r SET state = 'lost', reason = 'released', detail = $2,
        finished_at = clock_timestamp()
    WHERE r.id = ANY(ARRAY(SELECT run FROM gone)) AND r.state = 'running'
    RETURNING r.id, r.job, r.replica
)
SELECT gone.run, gone.token, coalesce(gone.owner,
    jsonb_build_object('replica', l.replica, 'job', l.job, 'run_id', l.id)),
    (SELECT jsonb_agg(jsonb_build_object('resource', resource, 'mode', mode, 'slots', slots)
        ORDER BY resource) FROM freed)
FROM gone LEFT JOIN lost l ON l.id = gone.run`

	// loseWaiting ends the run of the token while it waits for its next attempt. The transaction
	// has locked its wait.
	loseWaiting = `
WITH ended AS (
    UPDATE holdfast.runs SET state = 'lost', reason = 'released', detail = $3, blocker = NULL,
        finished_at = clock_timestamp()
    WHERE id = $1 AND state = 'waiting' AND token = $2 RETURNING id
), gone AS (
    DELETE FROM holdfast.waits w WHERE w.run = ANY(ARRAY(SELECT id FROM ended))
)
DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT id FROM ended))`
)

const (
	// finishGrace protects a finish, which locks its claim only briefly.
	finishGrace = 250 * time.Millisecond

	// endBackendsTimeout bounds the wait for the end of terminated backends.
	endBackendsTimeout = 5 * time.Second
)

// storedRelease is a locking.Released as stored in the audit log.
type storedRelease struct {
	ID       uuid.UUID       `json:"id"`
	Token    locking.Token   `json:"token"`
	Owner    locking.Owner   `json:"owner"`
	Requests []storedRequest `json:"requests"`
}

func (r storedRelease) released() (locking.Released, error) {
	requests, err := requestsOf(r.Requests)
	return locking.Released{ID: r.ID, Token: r.Token, Owner: r.Owner, Requests: requests}, err
}

// Release implements storage.Actions.
func (s *Store) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	if err := r.Check(); err != nil {
		return locking.Released{}, err
	}
	var outcome storedRelease
	target := string(r.Resource.Kind()) + " " + r.Resource.Path()
	err := s.action(ctx, a.Asking(fmt.Sprint(r.Token)), "release", target, &outcome,
		func(ctx context.Context, d *actionTx) error {
			if err := requireGrant(ctx, d, r); err != nil {
				return err
			}
			held, err := readLocks(ctx, d, heldLock, r.Token)
			if err != nil {
				return err
			}
			ended, err := s.takeClaim(ctx, d, r)
			if err != nil {
				return err
			}
			why := a.By("its lock was released")
			taken, err := readLocks(ctx, d, forceRelease, r.Token, why)
			if err != nil {
				return err
			}
			var released locking.Released
			switch {
			case len(taken) == 1:
				released = taken[0]
			case ended > 0 && len(held) == 1:
				// The run whose transaction was ended has finished first.
				released = held[0]
				err = loseNextAttempt(ctx, d, released, why)
			default: // its holder gave it back meanwhile
				return requireGrant(ctx, d, r)
			}
			outcome = storedRelease{ID: released.ID, Token: released.Token, Owner: released.Owner,
				Requests: storedRequests(released.Requests)}
			d.controlState, d.detail = true,
				map[string]any{"token": r.Token, "holder": released.Owner,
					"ended_transactions": ended}
			return err
		})
	if err != nil {
		return locking.Released{}, err
	}
	return outcome.released()
}

func readLocks(ctx context.Context, tx pgx.Tx, sql string,
	args ...any) ([]locking.Released, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, releasedLock)
}

// loseNextAttempt ends the run of the lock if it waits for its next attempt.
func loseNextAttempt(ctx context.Context, tx pgx.Tx, lock locking.Released, why string) error {
	if _, err := tx.Exec(ctx, lockWaits, []rawID{lock.ID}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, loseWaiting, lock.ID, lock.Token, why)
	return err
}

// requireGrant returns storage.ErrConflict unless the token holds the resource.
func requireGrant(ctx context.Context, tx pgx.Tx, r storage.ReleaseRequest) error {
	var stands bool
	if err := tx.QueryRow(ctx, grantStands, r.Resource.Key(), r.Token).Scan(&stands); err != nil ||
		stands {
		return err
	}
	rows, err := tx.Query(ctx, resourceHolders, r.Resource.Key())
	if err != nil {
		return err
	}
	holders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var job, replica string
		var token jobs.Token
		err := row.Scan(&job, &replica, &token)
		return fmt.Sprintf("%s on %s with token %d", job, replica, token), err
	})
	if err != nil {
		return err
	}
	return r.NotHeld(holders)
}

// takeClaim locks the claim, so that its holder can no longer use it. It returns how many
// transactions of the holder it has ended for that.
func (s *Store) takeClaim(ctx context.Context, tx pgx.Tx,
	r storage.ReleaseRequest) (ended int, err error) {
	if !r.EndTransaction {
		_, err := tx.Exec(ctx, takeClaimNow, r.Token)
		if codeOf(err) == lockNotAvailable {
			return 0, fmt.Errorf("token %d: %w", r.Token, storage.ErrInTransaction)
		}
		return 0, err
	}
	own, leave, err := s.besidePools(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	var pid int
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", endBackendsTimeout.String())
	b.Queue(backendID).QueryRow(func(row pgx.Row) error { return row.Scan(&pid) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, err
	}
	waited := make(chan error, 1)
	go func() {
		_, err := tx.Exec(ctx, lockClaim, r.Token)
		waited <- err
		close(waited)
	}()
	select {
	case err := <-waited:
		return 0, err
	case <-time.After(finishGrace):
	}
	// a younger transaction may be the finish of the run whose transaction was ended
	ended, err = endBlockers(ctx, own, pid, finishGrace, waited)
	<-waited // the transaction is used again
	if codeOf(err) == lockNotAvailable {
		return ended, fmt.Errorf("token %d, of which %s ended: %w", r.Token,
			plural.Of(ended, "transaction was", "transactions were"), storage.ErrInTransaction)
	}
	return ended, err
}
