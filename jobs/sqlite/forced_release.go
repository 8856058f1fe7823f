package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	runHolding = `
SELECT c.run FROM holdfast_claims c WHERE c.token = ?2
    AND EXISTS (SELECT 1 FROM holdfast_grants g WHERE g.resource = ?1 AND g.token = ?2)`

	resourceHolders = `
SELECT r.job, r.replica, g.token FROM holdfast_grants g JOIN holdfast_claims c ON c.token = g.token
    JOIN holdfast_runs r ON r.id = c.run
WHERE g.resource = ?1 ORDER BY g.token LIMIT 3`
)

// storedRelease is a locking.Released as stored in the audit log.
type storedRelease struct {
	ID       uuid.UUID       `json:"id"`
	Token    locking.Token   `json:"token"`
	Owner    locking.Owner   `json:"owner"`
	Requests []storedRequest `json:"requests"`
}

func (r storedRelease) released() (locking.Released, error) {
	released := locking.Released{ID: r.ID, Token: r.Token, Owner: r.Owner}
	for _, stored := range r.Requests {
		request, err := stored.request()
		if err != nil {
			return released, err
		}
		released.Requests = append(released.Requests, request)
	}
	return released, nil
}

// Release implements storage.Actions. While a transaction of the job is open, Release returns an
// error, unless the request asks to end the transaction. The release then comes before the end of
// the run, which would otherwise be recorded with the error of the transaction. The release is
// written even if ctx ends before the transaction does.
func (s *Store) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	err := r.Check()
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return locking.Released{}, wrap("release", err)
	}
	a = a.Asking(fmt.Sprint(r.Token))
	var outcome storedRelease
	// A release that would be refused must not end a transaction. The transaction has the writer.
	// If the same release has ended the run between the two reads, the second one finds it.
	run, refused := holding(ctx, s.readers, r)
	done, err := actionDone(ctx, s.readers, a, "release", releaseTarget(r), &outcome)
	switch {
	case err != nil:
		return locking.Released{}, wrap("release", err)
	case done:
		return outcome.released()
	case refused != nil:
		return locking.Released{}, wrap("release", refused)
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	ended := 0
	err = s.perform(ctx, "release", &request{run: run, token: r.Token,
		meet: func(tx *openTx) error {
			if !r.EndTransaction {
				return wrap("release", fmt.Errorf("token %d: %w", r.Token,
					storage.ErrInTransaction))
			}
			ended = 1
			time.AfterFunc(endTimeout, func() { leave(context.DeadlineExceeded) })
			return tx.abort()
		},
		write: func(ctx context.Context) error { return s.release(ctx, a, r, ended, &outcome) },
	})
	if err != nil {
		return locking.Released{}, err
	}
	return outcome.released()
}

func releaseTarget(r storage.ReleaseRequest) string {
	return string(r.Resource.Kind()) + " " + r.Resource.Path()
}

// release writes the release. The caller has the writer.
func (s *Store) release(ctx context.Context, a storage.Action, r storage.ReleaseRequest, ended int,
	outcome *storedRelease) error {
	return s.actionBy(ctx, s.writeNow, a, "release", releaseTarget(r), outcome,
		func(d *actionTx) error {
			run, err := holding(ctx, d, r)
			if err != nil {
				return err
			}
			if *outcome, err = takeClaim(ctx, d, a, run, r.Token); err != nil {
				return err
			}
			d.controlState = true
			d.detail = map[string]any{"token": r.Token, "holder": outcome.Owner,
				"ended_transactions": ended}
			return nil
		})
}

// holding returns the run of the token, or an error if it does not hold the resource.
func holding(ctx context.Context, from queryer, r storage.ReleaseRequest) (run uuid.UUID,
	err error) {
	err = from.QueryRowContext(ctx, runHolding, r.Resource.Key(), r.Token).Scan(&run)
	if errors.Is(err, sql.ErrNoRows) {
		err = heldByOthers(ctx, from, r)
	}
	return run, err
}

// takeClaim ends a run without a successor.
func takeClaim(ctx context.Context, d *actionTx, a storage.Action, run uuid.UUID,
	token jobs.Token) (storedRelease, error) {
	runs, err := loadRuns(ctx, d, []uuid.UUID{run})
	if err != nil {
		return storedRelease{}, err
	}
	held, err := heldBy(ctx, d.Tx, token)
	if err != nil {
		return storedRelease{}, err
	}
	outcome := storedRelease{ID: run, Token: token, Owner: runs[0].Owner()}
	for _, request := range held {
		outcome.Requests = append(outcome.Requests, storeRequest(request))
	}
	end := endRow{run: run, token: token, state: jobs.Lost, reason: reasons.Released,
		detail: a.By("its lock was released"), finished: &d.now}
	return outcome, endAttempts(ctx, d.Tx, []endRow{end})
}

func heldByOthers(ctx context.Context, from queryer, r storage.ReleaseRequest) error {
	var holders []string
	err := each(ctx, from, resourceHolders, []any{r.Resource.Key()}, func(rows *sql.Rows) error {
		var job, replica string
		var token jobs.Token
		err := rows.Scan(&job, &replica, &token)
		holders = append(holders, fmt.Sprintf("%s on %s with token %d", job, replica, token))
		return err
	})
	if err != nil {
		return err
	}
	return r.NotHeld(holders)
}
