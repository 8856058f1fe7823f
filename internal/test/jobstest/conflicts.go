package jobstest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var conflictRules = append(pairRules(), []rule{
	{"a resource with n slots has n holders", func(c *check) {
		s := c.session("one")
		var first storage.StartRequest
		var token jobs.Token
		for i := range 3 {
			r := request(fmt.Sprint("a", i), 1, slot("api", 3))
			got := c.granted(s, r)
			if i == 0 {
				first, token = r, got
			}
		}
		late := request("b", 1, slot("api", 3))
		c.blocked(s, late, reasons.LockHeld, first)
		c.finished(first, token, jobs.Succeeded)
		c.granted(s, late)
	}},
	{"slots are counted within a batch", func(c *check) {
		s := c.session("one")
		granted := 0
		for _, result := range c.start(s, request("a", 1, slot("api", 2)),
			request("b", 2, slot("api", 2)), request("c", 3, slot("api", 2))) {
			if result.Outcome == storage.StartGranted {
				granted++
			}
		}
		equal(c, "granted of 3 with 2 slots", granted, 2)
	}},
	{"a second firing of a job is refused as an overlap", func(c *check) {
		s := c.session("one")
		first, second := request("a", 1, ownName("a"), table("s/t")),
			request("a", 2, ownName("a"), table("s/t"))
		token := c.granted(s, first)
		blocker := c.blocked(s, second, reasons.Overlap, first)
		equal(c, "blocking resource", blocker.Resource, "job:a")
		c.finished(first, token, jobs.Failed)
		c.granted(s, second)
	}},
	{"an overlap is reported before other blockers", func(c *check) {
		s := c.session("one")
		other, first, second := request("other", 1, path("p"), table("s/t")),
			request("a", 1, ownName("a")), request("a", 2, ownName("a"), path("p"), table("s/t"))
		c.granted(s, other)
		c.granted(s, first)
		c.blocked(s, second, reasons.Overlap, first)
	}},
	{"grants of an expired session hold until a sweep", func(c *check) {
		one, two := c.session("one"), c.session("two")
		holder, next := request("a", 1, table("s/t")), request("b", 1, table("s/t"))
		c.granted(one, holder)
		c.Expire(one)
		c.blocked(two, next, reasons.LockHeld, holder)
		c.sweep()
		c.granted(two, next)
	}},
	{"resources with similar names do not conflict", func(c *check) {
		s := c.session("one")
		for i, name := range []string{"a", "ab", "a b", "a-b", "a.b", "a0", "A"} {
			c.granted(s, request(fmt.Sprint("j", i), 1, table("s/"+name)))
		}
		c.granted(s, request("above", 1, table("s0")))
		c.granted(s, request("like", 1, table("s_")))
	}},
}...)

// pairRules test whether the second of two requests waits for the first.
func pairRules() []rule {
	pairs := []struct {
		name          string
		first, second locking.Request
		blocked       bool
	}{
		{"the same table excludes", table("s/t"), table("s/t"), true},
		{"a locked schema excludes its table", table("s"), table("s/t"), true},
		{"a locked table excludes its schema", table("s/t"), table("s"), true},
		{"a locked path excludes its descendants", path("a"), path("a/b/c/d"), true},
		{"a locked path excludes its ancestors", path("a/b/c/d"), path("a/b"), true},
		{"siblings do not conflict", table("s/t"), table("s/u"), false},
		{"cousins do not conflict", path("a/b/c"), path("a/d/c"), false},
		{"shared allows shared", shared("s/t"), shared("s/t"), false},
		{"shared allows shared above", shared("s"), shared("s/t"), false},
		{"shared allows shared beneath", shared("s/t"), shared("s"), false},
		{"shared excludes exclusive", shared("s/t"), table("s/t"), true},
		{"exclusive excludes shared", table("s/t"), shared("s/t"), true},
		{"shared above excludes exclusive beneath", shared("s"), table("s/t"), true},
		{"exclusive above excludes shared beneath", table("s"), shared("s/t"), true},
		{"shared beneath excludes exclusive above", shared("s/t"), table("s"), true},
		{"exclusive beneath excludes shared above", table("s/t"), shared("s"), true},
		{"a table and a path of one name do not conflict", table("s/t"), path("s/t"), false},
		{"a path and a job of one name do not conflict", path("s"), ownName("s"), false},
		{"a job does not exclude a job whose name begins with its name", ownName("etl"),
			ownName("etl/daily"), false},
		{"nor the other way round", ownName("etl/daily"), ownName("etl"), false},
		{"a slot and a path of one name do not conflict", slot("s", 1), path("s"), false},
		{"a single slot excludes", slot("api", 1), slot("api", 1), true},
		{"one of two slots is free", slot("api", 2), slot("api", 2), false},
		{"slots of different names do not conflict", slot("api", 1), slot("api2", 1), false},
		{"a slot beneath a slot excludes", slot("api", 5), slot("api/v1", 5), true},
		{"a slot above a slot excludes", slot("api/v1", 5), slot("api", 5), true},
		{"exclusive excludes a slot", ask(locking.KindSlot, "api", locking.Exclusive, 0),
			slot("api", 5), true},
		{"a slot excludes exclusive", slot("api", 5),
			ask(locking.KindSlot, "api", locking.Exclusive, 0), true},
		{"a slot excludes shared", slot("api", 5), ask(locking.KindSlot, "api", locking.Shared, 0),
			true},
	}
	rules := make([]rule, len(pairs))
	for i, p := range pairs {
		rules[i] = rule{p.name, func(c *check) {
			one, two := c.session("one"), c.session("two")
			first, second := request("first", 1, p.first), request("second", 2, p.second)
			token := c.granted(one, first)
			if !p.blocked {
				c.granted(two, second)
				return
			}
			blocker := c.blocked(two, second, reasons.LockHeld, first)
			equal(c, "blocking resource", blocker.Resource, p.first.Resource.String())
			c.finished(first, token, jobs.Succeeded)
			c.granted(two, second)
		}}
	}
	return rules
}
