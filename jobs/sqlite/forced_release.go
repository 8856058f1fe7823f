package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
// the run, which would otherwise be recorded with the error of the transaction.
func (s *Store) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	if err := r.Check(); err != nil {
		return locking.Released{}, wrap("release", err)
	}
	a = a.Asking(fmt.Sprint(r.Token))
	target := string(r.Resource.Kind()) + " " + r.Resource.Path()
	var outcome storedRelease
	var refused error
	release := func(write writeFunc, ended int) {
		refused = s.actionBy(ctx, write, a, "release", target, &outcome,
			func(d *actionTx) error {
				run, held, err := holding(ctx, d, r)
				if err != nil {
					return err
				}
				if !held {
					return heldByOthers(ctx, d, r)
				}
				if outcome, err = takeClaim(ctx, d, a, run, r.Token); err != nil {
					return err
				}
				d.controlState = true
				d.detail = map[string]any{"token": r.Token, "holder": outcome.Owner,
					"ended_transactions": ended}
				return nil
			})
	}
	ended, err := s.yieldHeld(ctx, a, target, r, func() { release(s.writeNow, 1) })
	if err != nil {
		return locking.Released{}, wrap("release", err)
	}
	if ended == 0 {
		release(s.write, 0)
	}
	if refused != nil {
		return locking.Released{}, refused
	}
	return outcome.released()
}

// yieldHeld is fencing.yield for a release that the action will not refuse. It reads with the
// readers, because the job's transaction has the writer.
func (s *Store) yieldHeld(ctx context.Context, a storage.Action, target string,
	r storage.ReleaseRequest, release func()) (ended int, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	done, err := actionDone(ctx, s.readers, a, "release", target, nil)
	if err != nil || done {
		return 0, err
	}
	_, held, err := holding(ctx, s.readers, r)
	if err != nil || !held {
		return 0, err
	}
	return s.fencing.yield(ctx, r, release)
}

// holding returns the run of the token, and whether it holds the resource.
func holding(ctx context.Context, from queryer,
	r storage.ReleaseRequest) (run uuid.UUID, held bool, err error) {
	err = from.QueryRowContext(ctx, runHolding, r.Resource.Key(), r.Token).Scan(&run)
	if errors.Is(err, sql.ErrNoRows) {
		return run, false, nil
	}
	return run, err == nil, err
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

func heldByOthers(ctx context.Context, d *actionTx, r storage.ReleaseRequest) error {
	var holders []string
	err := each(ctx, d, resourceHolders, []any{r.Resource.Key()}, func(rows *sql.Rows) error {
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
