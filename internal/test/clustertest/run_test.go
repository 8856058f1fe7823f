package clustertest

import (
	"context"
	"fmt"
	"time"
)

// run is a row of the history.
type run struct {
	ID          string
	Job         string
	ScheduledAt time.Time
	State       string
	Reason      string
	Detail      string
	Error       string
	Output      string
	Replica     string
	Token       int64
	Recovery    int
	Attempt     int
	CreatedAt   time.Time
	StartedAt   time.Time // zero unless it started
	EndedAt     time.Time // zero unless it ended
}

const selectRuns = `
SELECT r.id::text, job, scheduled_at, state, reason, detail, error, coalesce(o.output, ''), replica, coalesce(token, 0), recovery, attempt, created_at,
    coalesce(started_at, '0001-01-01Z'), coalesce(finished_at, '0001-01-01Z')
FROM holdfast.runs r LEFT JOIN holdfast.outputs o ON o.run = r.id `

// awaitRuns waits until n runs in the history match the condition, and returns them, the oldest
// first.
func (c *cluster) awaitRuns(n int, condition string, args ...any) []run {
	c.t.Helper()
	var found []run
	c.await(fmt.Sprintf("%d runs WHERE %s %v", n, condition, args),
		func(ctx context.Context) (_ bool, err error) {
			found, err = ask[run](ctx, c,
				selectRuns+"WHERE "+condition+" ORDER BY scheduled_at, created_at, job", args...)
			return len(found) >= n, err
		})
	return found
}

// awaitRun waits until a run matches the condition, and returns the oldest.
func (c *cluster) awaitRun(condition string, args ...any) run {
	c.t.Helper()
	return c.awaitRuns(1, condition, args...)[0]
}

// awaitEnd waits until a run has ended.
func (c *cluster) awaitEnd(id string) run {
	c.t.Helper()
	return c.awaitRun("r.id = $1 AND finished_at IS NOT NULL", id)
}

// startedRun waits until a run of the job with a token larger than after has written its first row,
// and returns that run.
func (c *cluster) startedRun(job string, after int64) run {
	c.t.Helper()
	return c.awaitRun("job = $1 AND token > $2 AND EXISTS (SELECT FROM ledger l WHERE l.token = "+
		"r.token AND step = 'begin')", job, after)
}

// awaitOutcome waits until the run with the token has recorded the outcome of its last write.
func (c *cluster) awaitOutcome(token int64) (outcome string) {
	c.t.Helper()
	c.await(fmt.Sprintf("outcome of token %d", token), func(ctx context.Context) (bool, error) {
		rows, err := ask[struct{ Outcome string }](ctx, c,
			`SELECT outcome FROM outcomes WHERE token = $1`, token)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		outcome = rows[0].Outcome
		return true, nil
	})
	return outcome
}

// expect fails the test unless the run ended in that state with that reason.
func (c *cluster) expect(r run, state, reason string) {
	c.t.Helper()
	if r.State != state || r.Reason != reason {
		c.t.Errorf("run %s of %s (token %d, on %s): state %q, reason %q (%s; %s), want %q, %q",
			r.ID, r.Job, r.Token, r.Replica, r.State, r.Reason, r.Detail, r.Error, state, reason)
	}
}

// trigger triggers the job by the CLI and returns the id of the run.
func (c *cluster) trigger(job string) string {
	c.t.Helper()
	var added struct {
		ID string `json:"id"`
	}
	c.commandJSON(&added, "trigger", job)
	return added.ID
}

// begunToken waits until the run with the token has written its first row.
func (c *cluster) begunToken(token int64) {
	c.t.Helper()
	c.awaitValue(fmt.Sprintf("first row of token %d", token),
		`SELECT EXISTS (SELECT FROM ledger WHERE token = $1)`, token)
}

// awaitValue waits until a query returns true.
func (c *cluster) awaitValue(what, query string, args ...any) {
	c.t.Helper()
	c.await(what, func(ctx context.Context) (is bool, err error) {
		err = c.db.QueryRow(ctx, query, args...).Scan(&is)
		return is, err
	})
}
