package jobstest

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var releaseRules = []rule{
	{"a release removes the claim and its grants and ends the run as lost", func(c *check) {
		c.recovering("a")
		one, two := c.session("one"), c.session("two")
		r := request("a", 1, table("s/t"), table("s/u"), ownName("a"))
		token := c.granted(one, r)
		waits := request("b", 2, table("s/u"))
		c.blocked(two, waits, reasons.LockHeld, r)
		ask := storage.ReleaseRequest{Resource: table("s/t").Resource, Token: token}
		a := storage.Action{Actor: "ann", Via: "go", Reason: "stuck", Key: "k"}
		released, err := c.Store.Release(c.ctx, a, ask)
		c.must(err)
		requests, err := locking.Normalize(r.Requests)
		c.must(err)
		want := locking.Released{ID: r.Run, Token: token,
			Owner: locking.Owner{Replica: "one", Job: "a", Run: r.Run.String()}, Requests: requests}
		if !reflect.DeepEqual(released, want) {
			c.Errorf("released %+v, want %+v", released, want)
		}
		record := c.record(r.Run, jobs.Lost)
		equal(c, "reason", record.Reason, reasons.Released)
		if record.FinishedAt == nil || !strings.Contains(record.Detail, "ann") ||
			!strings.Contains(record.Detail, "stuck") {
			c.Errorf("released run %+v", record)
		}
		equal(c, "finish", c.finish(r, token, jobs.Succeeded), false)
		heartbeat, err := c.Store.Heartbeat(c.ctx, one, storage.ReplicaStatus{})
		c.must(err)
		equal(c, "claims", len(heartbeat.Claims), 0)
		c.granted(two, waits)
		c.Expire(one)
		c.sweep()
		equal(c, "recoveries", len(c.runs(storage.RunFilter{Job: "a"})), 1)
		again, err := c.Second().Release(c.ctx, a, ask)
		c.must(err)
		if !reflect.DeepEqual(again, released) {
			c.Errorf("got %+v, then %+v", released, again)
		}
		entry := c.audit(storage.AuditFilter{})[0]
		equal(c, "action", entry.Action, "release")
		equal(c, "target", entry.Target, "table s/t")
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 1)
	}},
	{"concurrent releases with one key have the same result", func(c *check) {
		s, stores := c.session("one"), []storage.Store{c.Store, c.Second()}
		const calls = 8
		for n := range 20 {
			r := request("a", n, table("s/t"))
			ask := storage.ReleaseRequest{Resource: table("s/t").Resource, Token: c.granted(s, r)}
			var all sync.WaitGroup
			released, errs := make([]locking.Released, calls), make([]error, calls)
			for i := range calls {
				all.Go(func() {
					released[i], errs[i] = stores[i%len(stores)].Release(c.ctx,
						keyed(strconv.Itoa(n)), ask)
				})
			}
			all.Wait()
			c.must(errors.Join(errs...))
			for _, got := range released {
				if !reflect.DeepEqual(got, released[0]) || got.ID != r.Run {
					c.Errorf("got %+v, want the release of run %s", got, r.Run)
				}
			}
		}
	}},
	{"a release with another token is refused and names the holder", func(c *check) {
		s := c.session("one")
		first, second := request("a", 1, table("s/t")), request("b", 2, table("s/t"))
		seen := c.granted(s, first)
		c.finished(first, seen, jobs.Succeeded)
		ask := storage.ReleaseRequest{Resource: table("s/t").Resource, Token: seen,
			EndTransaction: true}
		_, err := c.Store.Release(c.ctx, action, ask)
		c.refused("a free resource", err, storage.ErrConflict)
		token := c.granted(s, second)
		_, err = c.Store.Release(c.ctx, action, ask)
		c.refused("what another holds", err, storage.ErrConflict)
		if !strings.Contains(err.Error(), "b on one") {
			c.Errorf("got %q, want the holder", err)
		}
		ask.Token, ask.Resource = token, table("s/other").Resource
		_, err = c.Store.Release(c.ctx, action, ask)
		c.refused("another resource", err, storage.ErrConflict)
		c.finished(second, token, jobs.Succeeded)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 0)
	}},
}
