package jobstest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// controlState returns the control state of the session.
func (c *check) controlState(session uuid.UUID, since int64) storage.ControlState {
	c.Helper()
	o, err := c.Second().ControlState(c.ctx, session, since)
	c.must(err)
	return o
}

var controlStateRules = []rule{
	{"the control state has the open pauses, jobs and drains", func(c *check) {
		c.register("h", "a")
		first := c.controlState(uuid.Nil, -1)
		if len(first.Pauses) != 0 || len(first.Specs) != 0 || first.Draining {
			c.Errorf("first control state %+v", first)
		}
		p := c.pause(jobA)
		spec, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "added", Text: json.RawMessage(`{"handler": "sql"}`)})
		c.must(err)
		o := c.controlState(uuid.Nil, first.Generation)
		if o.Generation <= first.Generation || len(o.Pauses) != 1 || len(o.Specs) != 1 {
			c.Fatalf("control state %+v after %+v", o, first)
		}
		if o.Pauses[0] != p {
			c.Errorf("pause %+v, want %+v", o.Pauses[0], p)
		}
		if got := o.Specs[0]; got.Job != spec.Job || !storage.SameParams(got.Text, spec.Text) ||
			got.Version != spec.Version || !got.ChangedAt.Equal(spec.ChangedAt) ||
			got.ChangedBy != "ann" {
			c.Errorf("spec %+v, want %+v", got, spec)
		}
		same := c.controlState(uuid.Nil, o.Generation)
		if same.Generation != o.Generation || same.Pauses != nil || same.Specs != nil {
			c.Errorf("control state %+v, want only the generation", same)
		}
		c.resume(jobA)
		c.must(c.Store.RemoveSpec(c.ctx, action, "added", spec.Version))
		if last := c.controlState(uuid.Nil, o.Generation); last.Generation <= o.Generation ||
			len(last.Pauses) != 0 || len(last.Specs) != 0 {
			c.Errorf("control state %+v", last)
		}
	}},
	{"the answer has the session's own cancels at every generation", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.granted(s, r)
		c.cancel(r.Run)
		c.drain(s, true)
		o := c.controlState(s, c.controlState(s, -1).Generation)
		if !o.Draining || len(o.Cancels) != 1 {
			c.Errorf("control state %+v", o)
		}
	}},
	{"only changes of the control state increase the generation", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r, last := request("a", 1), int64(0)
		c.granted(s, r)
		for name, do := range map[string]func(){
			"pause": func() { c.pause(jobA) }, "cancel": func() { c.cancel(r.Run) },
			"drain": func() { c.drain(s, true) },
		} {
			if do(); c.controlState(s, -1).Generation <= last {
				c.Errorf("%s is missing", name)
			}
			last = c.controlState(s, -1).Generation
		}
		c.pause(jobA)
		_, err := c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: "a", EvenPaused: true})
		c.must(err)
		equal(c, "generation", c.controlState(s, -1).Generation, last)
	}},
	{"a heartbeat reads the generation and whether its session is drained", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		for _, do := range []func(){func() {}, func() { c.pause(jobA) },
			func() { c.drain(one, true) }, func() { c.drain(one, false) }} {
			do()
			for _, s := range []uuid.UUID{one, two} {
				heartbeat, err := c.Second().Heartbeat(c.ctx, s, storage.ReplicaStatus{})
				c.must(err)
				want := c.controlState(s, -1)
				equal(c, "generation", heartbeat.Generation, want.Generation)
				equal(c, "draining", heartbeat.Draining, want.Draining)
			}
		}
	}},
	{"a listener is notified of actions until its context ends", func(c *check) {
		if c.Pooled {
			err := c.Store.Listen(c.ctx, func() {})
			if !errors.Is(err, storage.ErrUnavailable) || c.ctx.Err() != nil {
				c.Errorf("listening through a pooler ended with %v, want ErrUnavailable", err)
			}
			return
		}
		c.register("h", "a")
		ctx, cancel := context.WithCancel(c.ctx)
		heard, ended := make(chan bool, 100), make(chan error, 1)
		go func() { ended <- c.Store.Listen(ctx, func() { heard <- true }) }()
		await(c, heard, ended) // the listener is ready
		for _, do := range []func(){func() { c.pause(jobA) }, func() { c.resume(jobA) }, func() {
			_, err := c.trigger("a", "k")
			c.must(err)
		}} {
			do()
			await(c, heard, ended)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			c.Errorf("listening ended with %v", err)
		}
	}},
}

// await returns when a notification has arrived.
func await(c *check, heard <-chan bool, ended <-chan error) {
	c.Helper()
	select {
	case <-heard:
	case err := <-ended:
		c.Fatalf("listening ended: %v", err)
	case <-c.ctx.Done():
		c.Fatal("no notification arrived")
	}
}
