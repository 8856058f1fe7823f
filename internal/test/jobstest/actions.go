package jobstest

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// audit returns entries of the audit log.
func (c *check) audit(f storage.AuditFilter) []storage.Audited {
	c.Helper()
	entries, err := c.Store.Audit(c.ctx, f)
	c.must(err)
	return entries
}

// keyed is an action with a key.
func keyed(key string) storage.Action { return storage.Action{Actor: "ann", Via: "api", Key: key} }

// overlong are texts that every store refuses.
var overlong = map[string]string{"too long": strings.Repeat("x", 501), "NUL": "a\x00b",
	"a line break": "a\nb", "no UTF-8": "a\xffb"}

var actionRules = []rule{
	{"each action has an audit entry with actor, proof, client, request, target and reason", func(c *check) {
		c.register("h", "a")
		before := c.now()
		_, err := c.Store.Pause(c.ctx,
			storage.Action{Actor: "ann", Via: "page", Proof: "password", Client: "2001:db8::1",
				RequestID: "r-1", Replica: "one", Reason: "so"}, jobA)
		c.must(err)
		run, err := c.Store.Trigger(c.ctx, storage.Action{Actor: "bob", Via: "cli"},
			storage.TriggerRequest{Job: "a", Key: "k", EvenPaused: true})
		c.must(err)
		entries := c.audit(storage.AuditFilter{})
		if len(entries) != 2 {
			c.Fatalf("audit entries %+v, want two", entries)
		}
		paused, triggered := entries[1], entries[0]
		within(c, "at", paused.At, before, triggered.At)
		if paused.Actor != "ann" || paused.Via != "page" || paused.Replica != "one" ||
			paused.Reason != "so" || paused.Action != "pause" || paused.Target != "job a" {
			c.Errorf("audit entry of the pause %+v", paused)
		}
		if paused.Proof != "password" || paused.Client != "2001:db8::1" ||
			paused.RequestID != "r-1" {
			c.Errorf("audit entry of the pause %+v, want the proof, the client and the request",
				paused)
		}
		if triggered.Proof != "" || triggered.Client != "" || triggered.RequestID != "" {
			c.Errorf("audit entry of the trigger %+v, want no proof, client and request",
				triggered)
		}
		if triggered.Actor != "bob" || triggered.Action != "trigger" ||
			triggered.Target != "job a" ||
			!strings.Contains(string(triggered.Detail), run.ID.String()) {
			c.Errorf("audit entry of the trigger %+v (%s)", triggered, triggered.Detail)
		}
	}},
	{"the audit log is filtered by actor, action and target, in pages", func(c *check) {
		c.register("h", "a", "b")
		for _, actor := range []string{"ann", "bob"} {
			for _, name := range []string{"a", "b"} {
				_, err := c.Store.Pause(c.ctx, storage.Action{Actor: actor, Via: "go"},
					storage.Target{Kind: storage.TargetJob, Name: name})
				c.must(err)
			}
		}
		c.resume(jobA)
		for _, t := range []struct {
			filter storage.AuditFilter
			want   int
		}{
			{storage.AuditFilter{}, 5}, {storage.AuditFilter{Actor: "bob"}, 2},
			{storage.AuditFilter{Action: "resume"}, 1}, {storage.AuditFilter{Target: "job b"}, 2},
			{storage.AuditFilter{Actor: "ann", Action: "pause", Target: "job a"}, 1},
			{storage.AuditFilter{Actor: "nobody"}, 0}, {storage.AuditFilter{Limit: 2}, 2},
		} {
			equal(c, "audit entries", len(c.audit(t.filter)), t.want)
		}
		all := c.audit(storage.AuditFilter{})
		var paged []storage.Audited
		var before *storage.RunCursor
		for range all {
			page := c.audit(storage.AuditFilter{Limit: 1, Before: before})
			paged = append(paged, page...)
			before = &storage.RunCursor{CreatedAt: page[0].At, ID: page[0].ID}
		}
		if !reflect.DeepEqual(paged, all) {
			c.Errorf("pages have %+v, want %+v", paged, all)
		}
		equal(c, "audit entries after the last", len(c.audit(storage.AuditFilter{Before: before})),
			0)
		slices.Reverse(all)
		paged = nil
		var after *storage.RunCursor
		for range all {
			page := c.audit(storage.AuditFilter{OldestFirst: true, Limit: 1, After: after})
			paged = append(paged, page...)
			after = &storage.RunCursor{CreatedAt: page[0].At, ID: page[0].ID}
		}
		if !reflect.DeepEqual(paged, all) {
			c.Errorf("pages have %+v, want the oldest first: %+v", paged, all)
		}
		equal(c, "audit entries after the youngest",
			len(c.audit(storage.AuditFilter{OldestFirst: true, After: after})), 0)
		from, until := all[1].At, all[len(all)-1].At
		var within []storage.Audited
		for _, entry := range all {
			if !entry.At.Before(from) && entry.At.Before(until) {
				within = append(within, entry)
			}
		}
		found := c.audit(storage.AuditFilter{OldestFirst: true, Since: from, Until: until})
		if !reflect.DeepEqual(found, within) {
			c.Errorf("since the second and until the last %+v, want %+v", found, within)
		}
	}},
	{"an action with a key runs once and returns the same result", func(c *check) {
		c.register("h", "a")
		first, err := c.Store.Pause(c.ctx, keyed("k"), jobA)
		c.must(err)
		c.resume(jobA)
		again, err := c.Second().Pause(c.ctx, keyed("k"), jobA)
		c.must(err)
		if !reflect.DeepEqual(again, first) {
			c.Errorf("got %+v, then %+v", first, again)
		}
		c.granted(c.session("one"), request("a", 1)) // the job is not paused again
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 2)
	}},
	{"a key belongs to one kind of action on one target", func(c *check) {
		c.register("h", "a", "b")
		_, err := c.Store.Pause(c.ctx, keyed("k"), jobA)
		c.must(err)
		_, err = c.Store.Pause(c.ctx, keyed("k"),
			storage.Target{Kind: storage.TargetJob, Name: "b"})
		c.refused("another target", err, storage.ErrKeyUsed)
		_, err = c.Store.Resume(c.ctx, keyed("k"), jobA)
		c.refused("another action", err, storage.ErrKeyUsed)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 1)
	}},
	{"a key belongs to one request", func(c *check) {
		spec := storage.Spec{Job: "added", Text: json.RawMessage(`{"name": "added"}`)}
		first, err := c.Store.PutSpec(c.ctx, keyed("k"), spec)
		c.must(err)
		again, err := c.Second().PutSpec(c.ctx, keyed("k"), spec)
		c.must(err)
		equal(c, "version", again.Version, first.Version)
		spec.Text = json.RawMessage(`{"name": "added", "group": "g"}`)
		_, err = c.Store.PutSpec(c.ctx, keyed("k"), spec)
		c.refused("another definition", err, storage.ErrKeyUsed)
		c.must(c.Store.RemoveSpec(c.ctx, keyed("r"), "added", first.Version))
		c.must(c.Store.RemoveSpec(c.ctx, keyed("r"), "added", first.Version))
		c.refused("another version", c.Store.RemoveSpec(c.ctx, keyed("r"), "added",
			first.Version+1), storage.ErrKeyUsed)
		r := request("a", 1, table("s/t"))
		release := storage.ReleaseRequest{Resource: table("s/t").Resource,
			Token: c.granted(c.session("one"), r)}
		_, err = c.Store.Release(c.ctx, keyed("l"), release)
		c.must(err)
		_, err = c.Store.Release(c.ctx, keyed("l"), release)
		c.must(err)
		release.Token++
		_, err = c.Store.Release(c.ctx, keyed("l"), release)
		c.refused("another token", err, storage.ErrKeyUsed)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 3)
	}},
	{"each actor has keys of its own", func(c *check) {
		c.register("h", "a")
		other := storage.Action{Actor: "bob", Via: "api", Key: "k"}
		_, err := c.Store.Pause(c.ctx, keyed("k"), jobA)
		c.must(err)
		_, err = c.Store.Resume(c.ctx, other, jobA)
		c.must(err)
		again, err := c.Second().Pause(c.ctx, storage.Action{Actor: "cat", Via: "api", Key: "k"},
			jobA)
		c.must(err)
		equal(c, "the pause is by", again.By, "cat")
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 3)
	}},
	{"each actor has keys of its own for triggers, also of runs that are recovered",
		func(c *check) {
			c.recovering("a")
			s := c.session("one")
			trigger := func(actor string, params string) (storage.Triggered, error) {
				return c.Store.Trigger(c.ctx, storage.Action{Actor: actor, Via: "api"},
					storage.TriggerRequest{Job: "a", Key: "k", Params: json.RawMessage(params)})
			}
			seen := map[uuid.UUID]bool{}
			for _, actor := range []string{"ann", "bob"} {
				run, err := trigger(actor, `{"of": "`+actor+`"}`)
				c.must(err)
				equal(c, "created for "+actor, run.Created, true)
				equal(c, "key", run.Key, "k")
				_, err = trigger(actor, `{"of": "another"}`)
				c.refused("other params", err, storage.ErrKeyUsed)
				adopted := c.adopt(s, 1, "a")
				equal(c, "actor of the adopted run", adopted[0].KeyActor, actor)
				r := storage.StartRequest{Run: run.ID, Firing: storage.Firing{Job: "a",
					ScheduledAt: run.ScheduledAt, Key: "k"}, Attempt: 1}
				c.finished(r, c.granted(s, r), jobs.Lost)
				adopted = c.adopt(s, 1, "a")
				equal(c, "actor of the recovery", adopted[0].KeyActor, actor)
				next, err := trigger(actor, `{"of": "`+actor+`"}`)
				c.must(err)
				equal(c, "created again for "+actor, next.Created, false)
				equal(c, "recovery", next.Recovery, 1)
				seen[run.ID], seen[next.ID] = true, true
				_, err = c.Store.Cancel(c.ctx, action, next.ID)
				c.must(err)
			}
			equal(c, "runs", len(seen), 4)
		}},
	{"a refused action leaves its key free", func(c *check) {
		_, err := c.Store.Pause(c.ctx, keyed("k"), jobA)
		c.refused("an unknown job", err, storage.ErrNotFound)
		c.register("h", "a")
		_, err = c.Store.Pause(c.ctx, keyed("k"), jobA)
		c.must(err)
	}},
	{"concurrent actions with one key run once and get the same result", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r := c.waiting(s, "a", 1)
		records := make([]storage.Record, 8)
		errs := make([]error, len(records))
		var all sync.WaitGroup
		for i := range records {
			store := []storage.Store{c.Store, c.Second()}[i%2]
			all.Go(func() { records[i], errs[i] = store.Cancel(c.ctx, keyed("k"), r.Run) })
		}
		all.Wait()
		for i := range records {
			c.must(errs[i])
			c.same(records[i], records[0])
		}
		equal(c, "state", records[0].State, jobs.Cancelled)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 1)
	}},
	{"concurrent triggers with one key get the same run", func(c *check) {
		c.register("h", "a")
		records := make([]storage.Triggered, 8)
		errs := make([]error, len(records))
		var all sync.WaitGroup
		for i := range records {
			store := []storage.Store{c.Store, c.Second()}[i%2]
			all.Go(func() {
				records[i], errs[i] = store.Trigger(c.ctx, action,
					storage.TriggerRequest{Job: "a", Key: "k"})
			})
		}
		all.Wait()
		for i := range records {
			c.must(errs[i])
			equal(c, "run", records[i].ID, records[0].ID)
		}
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 1)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 1)
	}},
	{"invalid text is refused and nothing is written", func(c *check) {
		c.register("h", "a")
		for name, bad := range overlong {
			for field, a := range map[string]storage.Action{
				"actor": {Actor: bad, Via: "go"}, "key": {Actor: "ann", Via: "go", Key: bad},
				"reason":  {Actor: "ann", Via: "go", Reason: bad},
				"replica": {Actor: "ann", Via: "go", Replica: bad}, "via": {Actor: "ann", Via: bad},
				"proof":      {Actor: "ann", Via: "go", Proof: bad},
				"client":     {Actor: "ann", Via: "go", Client: bad},
				"request id": {Actor: "ann", Via: "go", RequestID: bad},
			} {
				_, err := c.Store.Pause(c.ctx, a, jobA)
				c.refused(field+" with "+name, err, storage.ErrBadInput)
			}
			_, err := c.Store.Pause(c.ctx, action,
				storage.Target{Kind: storage.TargetGroup, Name: bad})
			c.refused("group with "+name, err, storage.ErrBadInput)
			_, err = c.Store.Resume(c.ctx, action,
				storage.Target{Kind: storage.TargetJob, Name: bad})
			c.refused("job with "+name, err, storage.ErrBadInput)
			_, err = c.trigger(bad, "k")
			c.refused("trigger of a job with "+name, err, storage.ErrBadInput)
			_, err = c.trigger("a", bad)
			c.refused("trigger's key with "+name, err, storage.ErrBadInput)
			_, err = c.Store.PutSpec(c.ctx, action,
				storage.Spec{Job: bad, Text: json.RawMessage(`{}`)})
			c.refused("spec's job with "+name, err, storage.ErrBadInput)
			c.refused("removal of a job with "+name, c.Store.RemoveSpec(c.ctx, action, bad, 1),
				storage.ErrBadInput)
			_, err = c.Store.Audit(c.ctx, storage.AuditFilter{Actor: bad})
			c.refused("audit filter with "+name, err, storage.ErrBadInput)
		}
		for name, text := range map[string]string{
			"nothing": "", "half of an object": `{"a":`, "two objects": `{} {}`, "a list": `[]`,
			"null": "null", "NUL": `{"a": "\u0000"}`,
			"half of a character": `{"a": "\ud800"}`, "the other half": `{"\udc00x": 1}`,
			"no UTF-8": "{\"a\": \"\xff\"}",
			"too much": `{"a": "` + strings.Repeat("x", storage.MaxTextBytes) + `"}`,
		} {
			_, err := c.Store.PutSpec(c.ctx, action,
				storage.Spec{Job: "b", Text: json.RawMessage(text)})
			c.refused("spec with "+name, err, storage.ErrBadInput)
			if text != "" {
				_, err = c.Store.Trigger(c.ctx, action,
					storage.TriggerRequest{Job: "a", Params: json.RawMessage(text)})
				c.refused("params with "+name, err, storage.ErrBadInput)
			}
		}
		_, err := c.Store.Pause(c.ctx, storage.Action{Via: "go"}, jobA)
		c.refused("nobody", err, storage.ErrBadInput)
		_, err = c.Store.Pause(c.ctx, action, storage.Target{Kind: "planet", Name: "a"})
		c.refused("an unknown kind", err, storage.ErrBadInput)
		_, err = c.Store.Pause(c.ctx, action, storage.Target{Kind: storage.TargetAll, Name: "a"})
		c.refused("everything with a name", err, storage.ErrBadInput)
		_, err = c.Store.Release(c.ctx, action, storage.ReleaseRequest{Token: 1})
		c.refused("a release of nothing", err, storage.ErrBadInput)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 0)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 0)
		equal(c, "generation", c.controlState(uuid.Nil, -1).Generation, 0)
	}},
	{"plain text is stored unchanged", func(c *check) {
		c.register("h", "a")
		text :=
			json.RawMessage(
				`{"a": "\u00e4\\u0000 \ud83d\ude00", "b": {"c": [1, 2.50, true, null]}}`)
		run, err := c.Store.Trigger(c.ctx,
			storage.Action{Actor: "Ännä 😀", Via: "go", Reason: `"so" 'it' \ is`},
			storage.TriggerRequest{Job: "a", Params: text})
		c.must(err)
		if got := c.record(run.ID, jobs.Waiting); !storage.SameParams(got.Params, text) ||
			!strings.Contains(got.Detail, "Ännä 😀") {
			c.Errorf("params %s, detail %s", got.Params, got.Detail)
		}
		if entry := c.audit(storage.AuditFilter{})[0]; entry.Actor != "Ännä 😀" ||
			entry.Reason != `"so" 'it' \ is` {
			c.Errorf("audit entry %+v", entry)
		}
	}},
}

// refused fails the test unless the error is of that kind.
func (c *check) refused(what string, err, kind error) {
	c.Helper()
	if !errors.Is(err, kind) {
		c.Errorf("%s: got error %v, want %v", what, err, kind)
	}
}
