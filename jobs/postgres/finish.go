package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	lockClaims = `SELECT FROM holdfast.claims WHERE token = ANY($1) ORDER BY token FOR UPDATE`

	// finishRuns ends runs whose claims exist, and returns them. None of them has an output or a
	// result, and none of them waits for another attempt. Most batches need no more.
	//
	// Its arguments are sorted by token. So it deletes the claims in this order, whether the plan
	// looks for the claim of each argument or for the argument of each claim. It writes no run
	// before it has deleted all claims.
	finishRuns = finishFrom + `unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[],
        $6::text[]) AS e (token, run, state, reason, detail, error)` + finishGone + `
    RETURNING c.token, c.run, e.state, e.reason, e.detail, e.error
)` + finishChanged + `batched = true, finished_at = clock_timestamp()` + finishTo

	// finishAttempts is finishRuns for all requests: also for runs that have an output or a result,
	// and for runs that wait. A run that waits for another attempt keeps its session. A claim that
	// is given back leaves its run as before its start, without a session.
	finishAttempts = finishFrom + `unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[],
        $5::text[], $6::text[], $7::text[], $8::text[], $9::bool[])
        AS e (token, run, state, reason, detail, error, output, result, given_back)` +
		finishGone + `
    RETURNING c.token, c.run, c.session, e.state, e.reason, e.detail, e.error, e.output, e.result,
        e.given_back
), saved_outputs AS (
    INSERT INTO holdfast.outputs AS o (run, output, result)
    SELECT run, output, result FROM gone WHERE output <> '' OR result IS NOT NULL
    ON CONFLICT (run) DO UPDATE SET ` + retainOutput + `
), new_waits AS (
    INSERT INTO holdfast.waits (run, session, since)
    SELECT run, CASE WHEN NOT given_back THEN session END, clock_timestamp()
    FROM gone WHERE state = 'waiting'
    ON CONFLICT (run) DO NOTHING
)` + finishChanged + `batched = e.state <> 'waiting',
        session = CASE WHEN NOT e.given_back THEN r.session END,
        replica = CASE WHEN e.given_back THEN '' ELSE r.replica END,
        token = CASE WHEN NOT e.given_back THEN r.token END,
        started_at = CASE WHEN NOT e.given_back THEN r.started_at END,
        waited = CASE WHEN NOT e.given_back THEN r.waited END,
        attempt = CASE WHEN e.given_back THEN 0
            WHEN e.state = 'waiting' THEN r.attempt + 1 ELSE r.attempt END,
        finished_at = CASE WHEN e.state <> 'waiting' THEN clock_timestamp() END,
        retry_waits = CASE WHEN e.state = 'waiting' AND NOT e.given_back
            THEN r.retry_waits || clock_timestamp() ELSE r.retry_waits END` + finishTo

	finishFrom = `
WITH gone AS (
    DELETE FROM holdfast.claims c USING `
	finishGone = `
    WHERE c.token = ANY($1) AND c.token = e.token AND (c.run = e.run) IS TRUE`
	finishChanged = `, freed AS (
    DELETE FROM holdfast.grants g WHERE g.token + 0 = ANY(ARRAY(SELECT token FROM gone))
), changed AS (
    UPDATE holdfast.runs r SET state = e.state, reason = e.reason, detail = e.detail,
        error = e.error, `
	finishTo = `
    FROM gone e
    WHERE r.id = ANY(ARRAY(SELECT run FROM gone)) AND r.id = e.run AND r.state = 'running'
    RETURNING r.id, r.job, r.state, r.token, r.created_at, r.scheduled_at, r.started_at, r.backfill
)` + noteEnded + `
SELECT id, state, token FROM changed`

	// noteEnded does what the database triggers of the table runs would do, for the ended runs in
	// changed. The statement sets runs.batched, so that they do not. A function adds the
	// deliveries: as a part of the plan, they would take time to set up in each execution.
	noteEnded = `, delivered AS MATERIALIZED (
    SELECT CASE WHEN ` + anySubscription + `
        THEN holdfast.add_deliveries(array_agg(id), array_agg(job), array_agg(state)) END
    FROM changed WHERE state NOT IN ('waiting', 'running')
), tallied AS (
    INSERT INTO holdfast.tally_changes (quarter, state, delay, runs)
    SELECT ` + tallyKey + `, count(*)
    FROM changed CROSS JOIN delivered WHERE state NOT IN ('waiting', 'running') GROUP BY 1, 2, 3
)`
	anySubscription = `EXISTS (SELECT FROM holdfast.subscriptions WHERE job > '')`
	tallyKey        = `holdfast.quarter(created_at), state, holdfast.delay(
        CASE WHEN backfill IS NULL THEN scheduled_at ELSE created_at END, started_at)`

	// cancelGivenBack cancels runs whose claims were given back, if an operator has asked for that
	// while they had their claims. It is a statement of its own, so that it sees each cancel that
	// was committed before finishAttempts changed the run. A later cancel sees the waiting run.
	cancelGivenBack = `
WITH asked AS MATERIALIZED (
    SELECT c.run, c.requested_by, s.replica FROM holdfast.cancels c
    LEFT JOIN holdfast.sessions s ON s.id = c.session WHERE c.run = ANY($1)
), gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(SELECT run FROM asked)) RETURNING run
), unwanted AS (
    DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))
)
UPDATE holdfast.runs r SET state = 'cancelled', reason = 'cancelled', blocker = NULL,
    detail = 'cancelled by ' || a.requested_by, replica = coalesce(a.replica, ''),
    finished_at = clock_timestamp()
FROM asked a WHERE r.id = a.run AND r.id = ANY(ARRAY(SELECT run FROM gone)) AND r.state = 'waiting'
RETURNING r.id`

	// retainOutput retains the output that was saved while the run was watched if the end of the
	// attempt has none, and the result of the previous attempt if this attempt has none.
	retainOutput = `output = CASE WHEN excluded.output = '' THEN o.output ELSE excluded.output END,
		result = coalesce(excluded.result, o.result)`

	// finishOutcomes has the states of runs that an earlier try may have ended.
	finishOutcomes = `
SELECT r.id, r.state, r.token FROM holdfast.runs r WHERE r.id = ANY($1)`
)

// Finish implements storage.Firings.
func (s *Store) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	done := make([]bool, len(requests))
	if len(requests) == 0 {
		return done, nil
	}
	if err := storage.CheckFinishes(requests); err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	finish := func() error {
		return s.pipelineByHash(ctx, "finish", func(b *pgx.Batch) {
			queueFinish(b, requests, done)
		})
	}
	err := finish()
	if errors.Is(err, storage.ErrRowHeld) {
		var ended int
		if ended, err = s.endAbandoned(ctx, requests, err); ended > 0 {
			err = finish()
		}
	}
	if err == nil && slices.Contains(done, false) {
		err = s.endedBefore(ctx, requests, done)
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

// endedBefore sets done for the requests that an earlier try has recorded, whose reply was lost.
func (s *Store) endedBefore(ctx context.Context, requests []storage.FinishRequest,
	done []bool) error {
	var runs []rawID
	for i, r := range requests {
		if !done[i] {
			runs = append(runs, r.Run)
		}
	}
	return s.pipeline(ctx, "finish", func(b *pgx.Batch) {
		b.Queue(finishOutcomes, runs).Query(readEnded(requests, done))
	})
}

// readEnded reads runs with their states and tokens. It sets done for each request that a run shows
// to be recorded.
func readEnded(requests []storage.FinishRequest, done []bool) func(rows pgx.Rows) error {
	place := make(map[uuid.UUID]int, len(requests))
	for i, r := range requests {
		place[r.Run] = i
	}
	return func(rows pgx.Rows) error {
		var run rawID
		var state string
		var token *int64
		_, err := pgx.ForEachRow(rows, []any{&run, &state, &token}, func() error {
			i := place[run]
			var known jobs.Token
			if token != nil {
				known = jobs.Token(*token)
			}
			done[i] = requests[i].Recorded(jobs.State(state), known)
			return nil
		})
		return err
	}
}

// endAbandoned ends the backends that hold claims of abandoned handlers, as a sweep does for dead
// sessions: their transactions roll back. It returns how many it has ended, or the error held if
// there was nothing to end.
func (s *Store) endAbandoned(ctx context.Context, requests []storage.FinishRequest,
	held error) (ended int, err error) {
	for _, r := range requests {
		if !r.LeftBehind {
			continue
		}
		n, err := s.endHolders(ctx, heldClaim(r.Token))
		if ended += n; err != nil {
			return ended, errors.Join(held, err)
		}
	}
	if ended > 0 {
		s.log.Warn().Int("ended_transactions", ended).
			Msg("transactions of handlers that were left behind ended")
	}
	return ended, held
}

// queueFinish adds the statements of a finish to a batch that begins with beginByHash.
func queueFinish(b *pgx.Batch, requests []storage.FinishRequest, done []bool) {
	queueSaved(b, requests)
	statement, columns := finishOf(requests)
	b.Queue(statement, columns...).Query(readEnded(requests, done))
	queueRunAttempts(b, requests)
	queueGivenBack(b, requests, done)
	queueRecovery(b, requests)
}

// queueGivenBack adds cancelGivenBack if a claim is given back.
func queueGivenBack(b *pgx.Batch, requests []storage.FinishRequest, done []bool) {
	var runs []rawID
	place := map[uuid.UUID]int{}
	for i, r := range requests {
		if r.GivenBack {
			runs, place[r.Run] = append(runs, r.Run), i
		}
	}
	if len(runs) == 0 {
		return
	}
	b.Queue(cancelGivenBack, runs).Query(func(rows pgx.Rows) error {
		var run rawID
		_, err := pgx.ForEachRow(rows, []any{&run}, func() error {
			done[place[run]] = false
			return nil
		})
		return err
	})
}

// finishOf returns finishRuns, or finishAttempts if a request needs it, with the columns.
func finishOf(requests []storage.FinishRequest) (statement string, columns []any) {
	n := len(requests)
	sorted := make([]*storage.FinishRequest, n)
	for i := range requests {
		sorted[i] = &requests[i]
	}
	slices.SortFunc(sorted, func(a, b *storage.FinishRequest) int {
		return cmp.Compare(a.Token, b.Token)
	})
	tokens, runs, states := make([]int64, n), make([]rawID, n), make([]string, n)
	reasons, details, texts, outputs := make([]string, n), make([]string, n), make([]string, n),
		make([]string, n)
	results, givenBack := make([]*string, n), make([]bool, n)
	statement = finishRuns
	for i, r := range sorted {
		tokens[i], runs[i], states[i], reasons[i] = int64(r.Token), r.Run, string(r.State),
			string(r.Reason)
		details[i], texts[i] = output.PlainText(r.Detail), output.PlainText(r.Error)
		if r.State != jobs.Waiting { // otherwise addRunAttempts stores it
			outputs[i] = output.PlainText(r.Output)
		}
		results[i], givenBack[i] = textOrNull(r.Result), r.GivenBack
		if r.State == jobs.Waiting || outputs[i] != "" || results[i] != nil {
			statement = finishAttempts
		}
	}
	columns = []any{tokens, runs, states, reasons, details, texts}
	if statement == finishAttempts {
		columns = append(columns, outputs, results, givenBack)
	}
	return statement, columns
}
