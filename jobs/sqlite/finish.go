package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	standingClaims = `SELECT c.token, c.run FROM json_each(?1) q CROSS
		JOIN holdfast_claims c ON c.token = q.value`

	// The grants of a claim are deleted with it.
	endClaims = `DELETE FROM holdfast_claims WHERE token IN (SELECT value FROM json_each(?1))`

	endRun = `
UPDATE holdfast_runs SET state = ?3, reason = ?4, detail = ?5, error = ?6, finished_at = ?7,
    wait_since = ?8,
    session = iif(?9, NULL, session), token = iif(?9, NULL, token),
    replica = iif(?9 AND ?3 = 'waiting', '', replica),
    started_at = iif(?9, NULL, started_at), waited = iif(?9, NULL, waited),
    attempt = iif(?9, 0, attempt + (?3 = 'waiting')),
    retry_waits = iif(?3 = 'waiting' AND NOT ?9,
        json_insert(coalesce(retry_waits, '[]'), '$[#]', ?8), retry_waits)
WHERE id = ?1 AND token = ?2 AND state = 'running'`

	cancelOf = `SELECT requested_by FROM holdfast_cancels WHERE run = ?1`

	// An end without output retains what was saved while the run was watched. An attempt without
	// result retains that of the previous attempt.
	saveOutput = `
INSERT INTO holdfast_outputs AS o (run, output, result) VALUES (?1, ?2, ?3)
    ON CONFLICT (run) DO UPDATE SET
    output = CASE excluded.output WHEN '' THEN o.output ELSE excluded.output END,
        result = coalesce(excluded.result, o.result)`
)

// endRow is the end of an attempt.
type endRow struct {
	run             uuid.UUID
	token           jobs.Token
	state           jobs.State
	reason          jobs.Reason
	detail, error   string
	finished, since *int64
	givenBack       bool
}

func (r endRow) values() []any {
	return []any{r.run, r.token, r.state, r.reason, r.detail, r.error, r.finished, r.since,
		r.givenBack}
}

// endAttempts deletes the claims and ends their runs.
func endAttempts(ctx context.Context, tx *sql.Tx, ends []endRow) error {
	tokens := make([]jobs.Token, len(ends))
	for i, end := range ends {
		tokens[i] = end.token
	}
	if err := execBatch(ctx, tx, endClaims, tokens); err != nil {
		return err
	}
	return execRows(ctx, tx, endRun, ends)
}

// Finish implements storage.Firings.
func (s *Store) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	if len(requests) == 0 {
		return []bool{}, nil
	}
	if err := storage.CheckFinishes(requests); err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	for _, r := range requests {
		if !r.LeftBehind {
			continue
		}
		// The abandoned handler may have the only writer, in a transaction with its own context. Or
		// it gets the writer before this call.
		q := &request{run: r.Run, token: r.Token, meet: (*openTx).abort,
			write: func(context.Context) error { return nil }}
		s.fencing.ask(q)
		defer s.fencing.withdraw(q)
	}
	var done []bool
	err := s.write(ctx, "finish", func(tx *sql.Tx) (err error) {
		done, err = finish(ctx, tx, requests)
		return err
	})
	return done, err
}

// finish ends attempts in a transaction of its own, or in a job's transaction.
func finish(ctx context.Context, tx *sql.Tx, requests []storage.FinishRequest) ([]bool, error) {
	claims, err := loadClaims(ctx, tx, requests)
	if err != nil {
		return nil, err
	}
	now := micros(time.Now())
	done := make([]bool, len(requests))
	var ends []endRow
	var retried []storage.FinishRequest
	for i, r := range requests {
		run, stands := claims[r.Token]
		if !stands || run != r.Run {
			continue
		}
		delete(claims, r.Token)
		done[i] = true
		if r.GivenBack {
			actor, cancelled, err := cancelledBy(ctx, tx, r.Run)
			if err != nil {
				return nil, err
			}
			if cancelled {
				r, done[i] = rules.CancelInstead(r, actor), false
			}
		}
		ends = append(ends, endOf(r, now))
		if r.State == jobs.Waiting && !r.GivenBack {
			retried = append(retried, r)
		}
		if err := keep(ctx, tx, r, now); err != nil {
			return nil, err
		}
	}
	if err := recoverRuns(ctx, tx, ends, now); err != nil {
		return nil, err
	}
	if err := endAttempts(ctx, tx, ends); err != nil {
		return nil, err
	}
	if err := addRunAttempts(ctx, tx, retried); err != nil {
		return nil, err
	}
	return done, doneBefore(ctx, tx, requests, done)
}

// cancelledBy returns who has asked to cancel the run, if anybody has.
func cancelledBy(ctx context.Context, tx *sql.Tx, run uuid.UUID) (
	actor string, asked bool, err error) {
	err = tx.QueryRowContext(ctx, cancelOf, run).Scan(&actor)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return actor, err == nil, err
}

func endOf(r storage.FinishRequest, now int64) endRow {
	end := endRow{run: r.Run, token: r.Token, state: r.State, reason: r.Reason,
		detail: output.PlainText(r.Detail), error: output.PlainText(r.Error),
		givenBack: r.GivenBack}
	if r.State == jobs.Waiting {
		end.since = &now
	} else {
		end.finished = &now
	}
	return end
}

func loadClaims(ctx context.Context, tx *sql.Tx,
	requests []storage.FinishRequest) (map[jobs.Token]uuid.UUID, error) {
	tokens := make([]jobs.Token, len(requests))
	for i, r := range requests {
		tokens[i] = r.Token
	}
	encoded, err := encode(tokens)
	if err != nil {
		return nil, err
	}
	claims := map[jobs.Token]uuid.UUID{}
	err = each(ctx, tx, standingClaims, []any{encoded}, func(rows *sql.Rows) error {
		var token jobs.Token
		var run uuid.UUID
		err := rows.Scan(&token, &run)
		claims[token] = run
		return err
	})
	return claims, err
}

// doneBefore marks the requests that an earlier call has completed.
func doneBefore(ctx context.Context, tx *sql.Tx, requests []storage.FinishRequest,
	done []bool) error {
	var ids []uuid.UUID
	for i, r := range requests {
		if !done[i] {
			ids = append(ids, r.Run)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	runs, err := loadRuns(ctx, tx, ids)
	if err != nil {
		return err
	}
	known := map[uuid.UUID]runRow{}
	for _, run := range runs {
		known[run.ID] = run
	}
	for i, r := range requests {
		run, found := known[r.Run]
		done[i] = done[i] || found && r.Recorded(run.State, run.Token)
	}
	return nil
}
