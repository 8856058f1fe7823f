package jobstest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outbox returns the store's outbox.
func (c *check) outbox(store storage.Store) storage.Outbox {
	c.Helper()
	o, ok := store.(storage.Outbox)
	if !ok {
		c.Skipf("%T keeps no deliveries", store)
	}
	return o
}

// hooked registers a job with a webhook "w" for the states.
func (c *check) hooked(job, hash string, states ...jobs.State) {
	c.Helper()
	d := definition(job, hash)
	for _, state := range states {
		d.Hooks = append(d.Hooks, jobs.Hook{Webhook: "w", State: state})
	}
	d.Recover = true
	_, err := c.Store.Register(c.ctx, c.session("registrar "+hash), []storage.Definition{d})
	c.must(err)
}

// take takes the deliveries of a webhook that can be sent now.
func (c *check) take(webhook string, lease time.Duration) []storage.Delivery {
	c.Helper()
	taken, err := c.outbox(c.Store).TakeDeliveries(c.ctx, webhook, lease, 100)
	c.must(err)
	return taken
}

// delivered fails the test unless the webhook's only delivery is for this end of the run.
func (c *check) delivered(run uuid.UUID, state jobs.State) storage.Delivery {
	c.Helper()
	taken := c.take("w", time.Hour)
	if len(taken) != 1 || taken[0].Run.ID != run || taken[0].Run.State != state ||
		taken[0].Tries != 1 || taken[0].Webhook != "w" {
		c.Fatalf("deliveries %+v, want one of run %s as %s", taken, run, state)
	}
	within(c, "taken at", taken[0].TakenAt, taken[0].CreatedAt, c.now())
	return taken[0]
}

func (c *check) settled(d storage.Delivery, s storage.Settlement) bool {
	c.Helper()
	s.ID, s.Tries, s.EarlierTries = d.ID, d.Tries, d.EarlierTries
	settled, err := c.outbox(c.Store).SettleDelivery(c.ctx, s)
	c.must(err)
	return settled
}

// undelivered lists the failed deliveries.
func (c *check) undelivered(f storage.UndeliveredFilter) []storage.Undelivered {
	c.Helper()
	found, err := c.outbox(c.Store).UndeliveredHooks(c.ctx, f)
	c.must(err)
	return found
}

// operator is the actor.
var operator = storage.Action{Actor: "operator", Via: "go"}

var finalStates = []jobs.State{jobs.Succeeded, jobs.Failed, jobs.TimedOut, jobs.Cancelled,
	jobs.Lost, jobs.Skipped, jobs.Missed}

var outboxRules = []rule{
	{"a webhook gets each end that it subscribes to once", func(c *check) {
		c.hooked("a", "h", jobs.Failed, jobs.TimedOut)
		s := c.session("one")
		before := c.now()
		for n, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Cancelled} {
			r := request("a", n)
			token := c.granted(s, r)
			f := storage.FinishRequest{Run: r.Run, Token: token, State: state, Error: "why",
				Output: "long", Result: json.RawMessage(`{"n":1}`)}
			_, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
			c.must(err)
			c.finished(r, token, state)
			if state != jobs.Failed {
				equal(c, "deliveries", len(c.take("w", 0)), 0)
				continue
			}
			d := c.delivered(r.Run, state)
			within(c, "created at", d.CreatedAt, before.Add(-time.Microsecond), c.now())
			equal(c, "error", d.Run.Error, "why")
			equal(c, "result", string(d.Run.Result), `{"n":1}`)
			equal(c, "output", d.Run.Output, "")
			equal(c, "job", d.Run.Job, "a")
			equal(c, "delivered", c.settled(d, storage.Settlement{Delivered: true}), true)
		}
	}},
	{"jobs without webhooks have no deliveries", func(c *check) {
		c.hooked("a", "h", finalStates...)
		c.register("h", "b")
		s := c.session("one")
		r := request("b", 1)
		c.finished(r, c.granted(s, r), jobs.Failed)
		equal(c, "deliveries", len(c.take("w", 0)), 0)
	}},
	{"an attempt before a retry has no delivery", func(c *check) {
		c.hooked("a", "h", finalStates...)
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Waiting)
		equal(c, "deliveries", len(c.take("w", 0)), 0)
		r.Attempt = 2
		c.finished(r, c.granted(s, r), jobs.Failed)
		c.delivered(r.Run, jobs.Failed)
	}},
	{"a skip and a failed start have deliveries", func(c *check) {
		c.hooked("a", "h", jobs.Skipped, jobs.Failed)
		s := c.session("one")
		for n, state := range []jobs.State{jobs.Skipped, jobs.Failed} {
			r := request("a", n)
			equal(c, "noted", c.note(s, noteOf(r, state, reasons.LockHeld)), true)
			c.settled(c.delivered(r.Run, state), storage.Settlement{Delivered: true})
		}
	}},
	{"a skipped waiting run has a delivery", func(c *check) {
		c.hooked("a", "h", jobs.Skipped)
		s := c.session("one")
		r := request("a", 1)
		equal(c, "noted", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		equal(c, "deliveries", len(c.take("w", 0)), 0)
		equal(c, "noted", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)), true)
		c.delivered(r.Run, jobs.Skipped)
	}},
	{"a run that a sweep ends as lost has a delivery, its recovery has none", func(c *check) {
		c.hooked("a", "h", finalStates...)
		s := c.session("one")
		r := request("a", 1)
		c.granted(s, r)
		c.Expire(s)
		equal(c, "lost", len(c.sweep().Lost), 1)
		c.delivered(r.Run, jobs.Lost)
	}},
	{"a run with a revoked claim has a delivery", func(c *check) {
		c.hooked("a", "h", finalStates...)
		r := request("a", 1)
		c.must(c.Store.Revoke(c.ctx, c.granted(c.session("one"), r), jobs.Cancelled,
			reasons.Cancelled))
		c.delivered(r.Run, jobs.Cancelled)
	}},
	{"a cancelled waiting run has a delivery", func(c *check) {
		c.hooked("a", "h", jobs.Cancelled)
		r, err := c.Store.Trigger(c.ctx, operator, storage.TriggerRequest{Job: "a", Key: "k"})
		c.must(err)
		_, err = c.Store.Cancel(c.ctx, operator, r.ID)
		c.must(err)
		c.delivered(r.ID, jobs.Cancelled)
	}},
	{"a run whose locks an operator releases has a delivery", func(c *check) {
		c.hooked("a", "h", jobs.Lost)
		r := request("a", 1, table("s/t"))
		token := c.granted(c.session("one"), r)
		_, err := c.Store.Release(c.ctx, operator,
			storage.ReleaseRequest{Resource: table("s/t").Resource, Token: token})
		c.must(err)
		c.delivered(r.Run, jobs.Lost)
	}},
	{"cancelled runs of a removed job have deliveries", func(c *check) {
		spec, err := c.Store.PutSpec(c.ctx, operator,
			storage.Spec{Job: "a", Text: json.RawMessage(`{}`)})
		c.must(err)
		d := definition("a", "h")
		d.Source, d.Hooks = storage.FromStore, []jobs.Hook{{Webhook: "w", State: jobs.Failed}}
		_, err = c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
		c.must(err)
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.must(c.Store.RemoveSpec(c.ctx, operator, "a", spec.Version))
		c.finished(r, token, jobs.Failed)
		c.delivered(r.Run, jobs.Failed)
	}},
	{"a misfire that is not run late has a delivery", func(c *check) {
		d := definition("a", "h")
		d.Hooks = []jobs.Hook{{Webhook: "w", State: jobs.Missed}}
		versions, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
		c.must(err)
		now := c.now()
		missed, late := uuid.New(), uuid.New()
		checks := []storage.MisfireCheck{{Job: "a", Version: versions["a"],
			ScheduledAt: now.Add(time.Minute), Until: now.Add(2 * time.Minute)}}
		_, err = c.Store.CheckMisfires(c.ctx, checks,
			func(string, storage.Cursor) []storage.Misfired {
				return []storage.Misfired{
					{Firing: storage.Firing{Job: "a", ScheduledAt: now.Add(time.Minute)}, Run: missed,
						State: jobs.Missed, Reason: reasons.Misfire},
					{Firing: storage.Firing{Job: "a", ScheduledAt: now.Add(2 * time.Minute)},
						Run:   late,
						State: jobs.Waiting, Reason: reasons.Misfire},
				}
			})
		c.must(err)
		c.delivered(missed, jobs.Missed)
	}},
	{"each webhook has its own deliveries", func(c *check) {
		d := definition("a", "h")
		d.Hooks = []jobs.Hook{{Webhook: "v", State: jobs.Failed},
			{Webhook: "w", State: jobs.Failed}, {Webhook: "v", State: jobs.Succeeded}}
		_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
		c.must(err)
		r := request("a", 1)
		c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
		w := c.delivered(r.Run, jobs.Failed)
		v := c.take("v", time.Hour)
		if len(v) != 1 || v[0].ID == w.ID || v[0].Run.ID != r.Run {
			c.Errorf("deliveries of v %+v, of w %+v", v, w)
		}
		c.settled(w, storage.Settlement{Delivered: true})
		equal(c, "v delivered", c.settled(v[0], storage.Settlement{Delivered: true}), true)
	}},
	{"the active definition decides which deliveries are written", func(c *check) {
		c.hooked("a", "old", jobs.Failed)
		c.hooked("a", "new")
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Failed)
		equal(c, "deliveries", len(c.take("w", 0)), 0)
		c.hooked("a", "newest", jobs.Failed, jobs.Lost)
		r = request("a", 2)
		c.finished(r, c.granted(s, r), jobs.Failed)
		c.delivered(r.Run, jobs.Failed)
	}},
	{"a leased delivery is not given to others until the lease ends", func(c *check) {
		c.hooked("a", "h", jobs.Failed)
		r := request("a", 1)
		c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
		first := c.take("w", 0) // a lease that ends at once
		again := c.take("w", time.Hour)
		if len(first) != 1 || len(again) != 1 || again[0].ID != first[0].ID || again[0].Tries != 2 {
			c.Fatalf("taken %+v, then %+v", first, again)
		}
		equal(c, "taken while lent", len(c.take("w", time.Hour)), 0)
		equal(c, "settled by who lost it", c.settled(first[0], storage.Settlement{Delivered: true}),
			false)
		equal(c, "deferred by who lost it", c.settled(first[0], storage.Settlement{Error: "late"}),
			false)
		equal(c, "settled by who has it", c.settled(again[0], storage.Settlement{Delivered: true}),
			true)
		equal(c, "settled again", c.settled(again[0], storage.Settlement{Delivered: true}), false)
		equal(c, "taken once delivered", len(c.take("w", 0)), 0)
	}},
	{"a failed delivery is retried, given up and listed", func(c *check) {
		c.hooked("a", "h", jobs.Failed)
		r := request("a", 1)
		c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
		shown := func() storage.Undelivered {
			c.Helper()
			found, err := c.outbox(c.Store).UndeliveredHooks(c.ctx, storage.UndeliveredFilter{})
			c.must(err)
			if len(found) != 1 {
				c.Fatalf("undelivered %+v, want one", found)
			}
			return found[0]
		}
		d := c.delivered(r.Run, jobs.Failed)
		equal(c, "deferred", c.settled(d, storage.Settlement{Error: "503", Again: 0}), true)
		u := shown()
		if u.Error != "503" || u.Run != r.Run || u.State != jobs.Failed || u.Tries != 1 ||
			u.NextAt == nil || u.GaveUpAt != nil {
			c.Errorf("undelivered %+v", u)
		}
		again := c.take("w", time.Hour)
		if len(again) != 1 || again[0].ID != d.ID || again[0].Tries != 2 {
			c.Fatalf("taken again %+v", again)
		}
		equal(c, "deferred", c.settled(again[0],
			storage.Settlement{Error: "504", Again: time.Hour}),
			true)
		equal(c, "taken before its time", len(c.take("w", 0)), 0)
		within(c, "next try", *shown().NextAt, c.now().Add(59*time.Minute), c.now().Add(time.Hour))
		equal(c, "given up", c.settled(again[0], storage.Settlement{Error: "gone", GiveUp: true}),
			true)
		equal(c, "taken once given up", len(c.take("w", 0)), 0)
		if u := shown(); u.Error != "gone" || u.NextAt != nil || u.GaveUpAt == nil {
			c.Errorf("given up %+v", u)
		}
		c.must(c.outbox(c.Store).ForgetDeliveries(c.ctx))
		shown() // the delivery is not old
	}},
	{"failed deliveries are listed by webhook and run, youngest first",
		func(c *check) {
			d := definition("a", "h")
			d.Hooks = []jobs.Hook{{Webhook: "v", State: jobs.Failed},
				{Webhook: "w", State: jobs.Failed}}
			_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
			c.must(err)
			s := c.session("one")
			var last storage.StartRequest
			for n := range 3 {
				last = request("a", n)
				c.finished(last, c.granted(s, last), jobs.Failed)
				for _, webhook := range []string{"v", "w"} {
					c.settled(c.take(webhook, time.Hour)[0],
						storage.Settlement{Error: "503", Again: time.Hour,
							GiveUp: webhook == "v" && n > 0})
				}
			}
			all := c.undelivered(storage.UndeliveredFilter{})
			for _, t := range []struct {
				filter storage.UndeliveredFilter
				want   int
			}{
				{storage.UndeliveredFilter{}, 6}, {storage.UndeliveredFilter{Webhook: "w"}, 3},
				{storage.UndeliveredFilter{Webhook: "x"}, 0},
				{storage.UndeliveredFilter{GivenUp: true}, 2},
				{storage.UndeliveredFilter{GivenUp: true, Webhook: "w"}, 0},
				{storage.UndeliveredFilter{Failing: true}, 4},
				{storage.UndeliveredFilter{Failing: true, Webhook: "v"}, 1},
				{storage.UndeliveredFilter{Failing: true, GivenUp: true}, 0},
				{storage.UndeliveredFilter{Run: last.Run}, 2},
				{storage.UndeliveredFilter{Run: uuid.New()}, 0},
				{storage.UndeliveredFilter{Limit: 4}, 4},
			} {
				equal(c, fmt.Sprintf("deliveries by %+v", t.filter), len(c.undelivered(t.filter)),
					t.want)
			}
			var paged []storage.Undelivered
			var at *storage.RunCursor
			for range len(all) / 2 {
				page := c.undelivered(storage.UndeliveredFilter{Limit: 2, Before: at})
				paged = append(paged, page...)
				at = &storage.RunCursor{CreatedAt: page[1].CreatedAt, ID: page[1].ID}
			}
			if !reflect.DeepEqual(paged, all) {
				c.Errorf("pages have %+v, want %+v", paged, all)
			}
			equal(c, "deliveries after the last",
				len(c.undelivered(storage.UndeliveredFilter{Before: at})), 0)
			before := c.undelivered(storage.UndeliveredFilter{Limit: 2, After: at})
			if !reflect.DeepEqual(before, all[3:5]) {
				c.Errorf("the page before has %+v, want %+v", before, all[3:5])
			}
			for i, u := range all {
				equal(c, "job", u.Job, "a")
				if i > 0 && u.CreatedAt.After(all[i-1].CreatedAt) {
					c.Errorf("%+v is listed after %+v", u, all[i-1])
				}
			}
			_, err = c.outbox(c.Store).
				UndeliveredHooks(c.ctx, storage.UndeliveredFilter{Webhook: "a\x00b"})
			c.refused("a webhook with NUL", err, storage.ErrBadInput)
			_, err = c.outbox(c.Store).
				UndeliveredHooks(c.ctx, storage.UndeliveredFilter{Limit: storage.MaxBatch + 1})
			c.refused("too long a list", err, storage.ErrBadInput)
		}},
	{"a repeated delivery is due at once with a new count of tries", func(c *check) {
		c.hooked("a", "h", jobs.Failed)
		r := request("a", 1)
		c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
		d := c.delivered(r.Run, jobs.Failed)
		equal(c, "since when its tries count", d.Since, d.CreatedAt)
		equal(c, "given up", c.settled(d, storage.Settlement{Error: "gone", GiveUp: true}), true)
		before := c.now()
		u, err := c.outbox(c.Store).DeliverAgain(c.ctx, keyed("again"), d.ID)
		c.must(err)
		if u.ID != d.ID || u.NextAt == nil || u.GaveUpAt != nil || u.Tries != 1 ||
			u.Error != "gone" || u.Job != "a" {
			c.Errorf("to be delivered again: %+v", u)
		}
		again := c.take("w", time.Hour)
		if len(again) != 1 || again[0].ID != d.ID || again[0].Tries != 2 ||
			again[0].EarlierTries != 1 {
			c.Fatalf("taken again %+v", again)
		}
		within(c, "since when its tries count", again[0].Since, before, c.now())
		repeated, err := c.outbox(c.Second()).DeliverAgain(c.ctx, keyed("again"), d.ID)
		c.must(err)
		if !reflect.DeepEqual(repeated, u) {
			c.Errorf("got %+v, then %+v", u, repeated)
		}
		equal(c, "taken after the repeated action", len(c.take("w", 0)), 0)
		entries := c.audit(storage.AuditFilter{Action: "deliver_again"})
		if len(entries) != 1 || entries[0].Target != "delivery "+d.ID.String() ||
			entries[0].Actor != "ann" ||
			!strings.Contains(string(entries[0].Detail), r.Run.String()) {
			c.Errorf("audit entries %+v", entries)
		}
		equal(c, "delivered", c.settled(again[0], storage.Settlement{Delivered: true}), true)
		_, err = c.outbox(c.Store).DeliverAgain(c.ctx, operator, d.ID)
		c.refused("a delivery that was made", err, storage.ErrNotFound)
		_, err = c.outbox(c.Store).DeliverAgain(c.ctx, storage.Action{Via: "go"}, d.ID)
		c.refused("nobody", err, storage.ErrBadInput)
	}},
	{"a failed try does not delay a delivery that was repeated meanwhile",
		func(c *check) {
			c.hooked("a", "h", jobs.Failed)
			r := request("a", 1)
			c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
			d := c.delivered(r.Run, jobs.Failed)
			_, err := c.outbox(c.Store).DeliverAgain(c.ctx, operator, d.ID)
			c.must(err)
			equal(c, "given up by the try before",
				c.settled(d, storage.Settlement{Error: "gone", GiveUp: true}), false)
			equal(c, "scheduled_at", len(c.take("w", time.Hour)), 1)
			// A success still ends the delivery.
			again := request("a", 2)
			c.finished(again, c.granted(c.session("two"), again), jobs.Failed)
			d = c.delivered(again.Run, jobs.Failed)
			_, err = c.outbox(c.Store).DeliverAgain(c.ctx, operator, d.ID)
			c.must(err)
			equal(c, "delivered by the try before",
				c.settled(d, storage.Settlement{Delivered: true}),
				true)
			equal(c, "scheduled_at", len(c.take("w", 0)), 0)
		}},
	{"concurrent senders share the due deliveries", func(c *check) {
		c.hooked("a", "h", jobs.Failed)
		s := c.session("one")
		const runs = 60
		for n := range runs {
			r := request("a", n)
			c.finished(r, c.granted(s, r), jobs.Failed)
		}
		var mu sync.Mutex
		taken := map[uuid.UUID]int{}
		var problems []error
		var takers sync.WaitGroup
		for n := range 6 {
			o := c.outbox([]storage.Store{c.Store, c.Second()}[n%2])
			takers.Go(func() {
				for misses := 0; misses < 3; {
					got, err := o.TakeDeliveries(c.ctx, "w", time.Hour, 4)
					mu.Lock()
					if err != nil {
						problems = append(problems, err)
					}
					if len(got) > 4 {
						problems = append(problems, fmt.Errorf("%d taken at once", len(got)))
					}
					for _, d := range got {
						taken[d.ID]++
					}
					mu.Unlock()
					if len(got) == 0 {
						misses++
					}
				}
			})
		}
		takers.Wait()
		for _, err := range problems {
			c.Error(err)
		}
		equal(c, "deliveries", len(taken), runs)
		for id, n := range taken {
			equal(c, "times that "+id.String()+" was taken", n, 1)
		}
	}},
}
