package clustertest

import (
	"context"
	"fmt"
	"time"
)

// settle waits until no firing of the jobs with a scheduled time up to then can change. The misfire
// checks have passed that time, and no such run waits or runs.
func (c *cluster) settle(until time.Time, jobs ...string) {
	c.t.Helper()
	c.await(fmt.Sprintf("all firings until %s are settled", until),
		func(ctx context.Context) (settled bool, err error) {
			err = c.db.QueryRow(ctx, `
SELECT NOT EXISTS (SELECT FROM holdfast.jobs WHERE name = ANY($1) AND checked_until < $2)
    AND NOT EXISTS (SELECT FROM holdfast.runs WHERE job = ANY($1) AND scheduled_at <= $2 AND finished_at IS NULL)`, jobs, until).Scan(&settled)
			return settled, err
		})
}

// expectEachOnce checks each second of the closed interval. It fails the test unless the job has
// exactly one first run or record there.
func (c *cluster) expectEachOnce(job string, from, until time.Time) (states map[string]int) {
	c.t.Helper()
	type record struct {
		ScheduledAt time.Time
		State       string
	}
	records, err := ask[record](c.ctx, c, `
SELECT scheduled_at, state FROM holdfast.runs WHERE job = $1 AND key = '' AND recovery = 0 AND scheduled_at BETWEEN $2 AND $3`, job, from, until)
	if err != nil {
		c.t.Fatal(err)
	}
	found := map[int64]int{}
	states = map[string]int{}
	for _, r := range records {
		found[r.ScheduledAt.UnixMicro()]++
		states[r.State]++
	}
	for scheduledAt := from; !scheduledAt.After(until); scheduledAt = scheduledAt.Add(time.Second) {
		if n := found[scheduledAt.UnixMicro()]; n != 1 {
			c.t.Errorf("%s at scheduled time %s: got %d records, want 1", job, scheduledAt, n)
		}
		delete(found, scheduledAt.UnixMicro())
	}
	for scheduledAt := range found {
		c.t.Errorf("%s: got a record at %s, which is no scheduled time", job,
			time.UnixMicro(scheduledAt))
	}
	return states
}
