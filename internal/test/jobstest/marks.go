package jobstest

import (
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var markRules = []rule{
	{"changes of runs move the marks of their topics for every replica", func(c *check) {
		c.register("h", "a", "b")
		one := c.session("one")
		holder, waiter := request("a", 1, table("s/t")), request("b", 1, table("s/t"))
		var token jobs.Token
		c.moved("a start", func() { token = c.granted(one, holder) }, storage.TopicRuns,
			storage.TopicLocks)
		c.moved("a wait", func() { c.blocked(one, waiter, reasons.LockHeld, holder) },
			storage.TopicRuns, storage.TopicLocks)
		c.moved("an end", func() { c.finished(holder, token, jobs.Succeeded) }, storage.TopicRuns,
			storage.TopicLocks)
		c.moved("the end of a wait", func() {
			c.note(one, noteOf(waiter, jobs.Skipped, reasons.LockHeld))
		}, storage.TopicRuns, storage.TopicLocks)
		c.moved("a run that was nothing but skipped", func() {
			c.note(one, noteOf(request("a", 2), jobs.Skipped, reasons.Overlap))
		}, storage.TopicRuns)
		c.moved("a start that has ended meanwhile", func() {
			again := request("a", 3)
			c.finished(again, c.granted(one, again), jobs.Succeeded)
		}, storage.TopicRuns)
	}},
	{"actions of operators move the marks of their topics", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		all := storage.Target{Kind: storage.TargetAll}
		c.moved("a pause", func() { c.pause(all) }, storage.TopicJobs, storage.TopicAudit)
		c.moved("its end", func() { c.resume(all) }, storage.TopicJobs, storage.TopicAudit)
		c.moved("a drain", func() { c.drain(one, true) }, storage.TopicReplicas, storage.TopicAudit)
		c.moved("a trigger", func() { _, err := c.trigger("a", "k"); c.must(err) },
			storage.TopicRuns,
			storage.TopicAudit)
		c.moved("a job more", func() {
			_, err := c.Store.PutSpec(c.ctx, action,
				storage.Spec{Job: "added", Text: []byte(`{"name": "added"}`)})
			c.must(err)
		}, storage.TopicJobs, storage.TopicAudit)
	}},
	{"sessions and definitions of replicas move marks", func(c *check) {
		var one uuid.UUID
		c.moved("a session", func() { one = c.session("one") }, storage.TopicReplicas)
		c.moved("a definition", func() { c.registerAll(one, "h", "a") }, storage.TopicJobs)
		c.moved("an outage of a database", func() {
			_, err := c.Store.Heartbeat(c.ctx, one, storage.ReplicaStatus{
				Databases: []storage.DatabaseState{{Name: "warehouse", Error: "refused"}}})
			c.must(err)
		}, storage.TopicReplicas)
		c.moved("an end", func() { c.must(c.Store.End(c.ctx, one)) }, storage.TopicReplicas)
		two := c.session("two")
		c.moved("a death", func() { c.Expire(two) }, storage.TopicReplicas)
	}},
	{"deliveries move the mark of deliveries", func(c *check) {
		c.outbox(c.Store)
		c.hooked("a", "h", jobs.Failed)
		one := c.session("one")
		c.moved("a delivery", func() {
			r := request("a", 1)
			c.finished(r, c.granted(one, r), jobs.Failed)
		}, storage.TopicRuns, storage.TopicWebhooks)
		c.moved("its taking", func() { c.take("w", ttl) }, storage.TopicWebhooks)
	}},
	{"heartbeats and queries move no mark", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		r := request("a", 1, table("s/t"))
		c.granted(one, r)
		before := c.marks(c.Store)
		_, err := c.Store.Heartbeat(c.ctx, one, storage.ReplicaStatus{Busy: 3})
		c.must(err)
		c.locks()
		c.sweep()
		for topic, mark := range c.marks(c.Second()) {
			equal(c, "mark of "+string(topic), mark, before[topic])
		}
	}},
}

func (c *check) marks(store storage.Store) storage.Marks {
	c.Helper()
	marks, err := store.Marks(c.ctx)
	c.must(err)
	for _, topic := range storage.Topics() {
		if _, known := marks[topic]; !known || len(marks) != len(storage.Topics()) {
			c.Fatalf("marks %v, want one of each topic", marks)
		}
	}
	return marks
}

// moved fails the test unless happens changes the marks of the topics. Others may change too.
func (c *check) moved(what string, happens func(), topics ...storage.Topic) {
	c.Helper()
	before := c.marks(c.Store)
	happens()
	after := c.marks(c.Second())
	for _, topic := range storage.Topics() {
		if slices.Contains(topics, topic) && before[topic] == after[topic] {
			c.Errorf("%s does not move the mark of %s: %q", what, topic, after[topic])
		}
	}
}
