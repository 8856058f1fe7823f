package clustertest

import (
	"context"
	"fmt"
	"time"
)

// settle waits until nothing about the firings of the jobs that were due until
// then can change: misfires are checked beyond it, and nothing waits or runs.
func (c *cluster) settle(until time.Time, jobs ...string) {
	c.t.Helper()
	c.await(fmt.Sprintf("all firings until %s are settled", until), func(ctx context.Context) (settled bool, err error) {
		err = c.db.QueryRow(ctx, `
SELECT NOT EXISTS (SELECT FROM holdfast.jobs WHERE name = ANY($1) AND checked_until < $2)
    AND NOT EXISTS (SELECT FROM holdfast.runs WHERE job = ANY($1) AND due <= $2 AND finished_at IS NULL)`, jobs, until).Scan(&settled)
		return settled, err
	})
}

// expectEachOnce fails the test unless each second from the one to the other,
// both included, has exactly one first run or record of the job.
func (c *cluster) expectEachOnce(job string, from, until time.Time) (states map[string]int) {
	c.t.Helper()
	type record struct {
		Due   time.Time
		State string
	}
	records, err := ask[record](c.ctx, c, `
SELECT due, state FROM holdfast.runs WHERE job = $1 AND key = '' AND recovery = 0 AND due BETWEEN $2 AND $3`, job, from, until)
	if err != nil {
		c.t.Fatal(err)
	}
	found := map[int64]int{}
	states = map[string]int{}
	for _, r := range records {
		found[r.Due.UnixMicro()]++
		states[r.State]++
	}
	for due := from; !due.After(until); due = due.Add(time.Second) {
		if n := found[due.UnixMicro()]; n != 1 {
			c.t.Errorf("%s due %s has %d records, expected one", job, due, n)
		}
		delete(found, due.UnixMicro())
	}
	for due := range found {
		c.t.Errorf("%s has a record for %s, when it was not due", job, time.UnixMicro(due))
	}
	return states
}
