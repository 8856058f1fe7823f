package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// control executes actions in memory. It refuses what the API's tests need to be refused. The real
// stores have a conformance suite.
type control struct {
	storage.Control // Listen and Pauses are not used
	storage.Outbox  // webhook senders do not use it
	history         *history
	inTheWay        *storage.RunBlocker // the blocker of triggered runs

	mu      sync.Mutex
	actions []storage.Action
	audit   []storage.Audited
	keys    map[string]string // the action that used the key
	pauses  []storage.Pause
	specs   []storage.Spec
	runs    map[string]storage.Record // by job and key
	params  map[string]json.RawMessage
	drained map[uuid.UUID]bool
	ended   []storage.ReleaseRequest
	inside  bool // whether holders are inside transactions
	// diesAfter is the number of actions after which the store does not answer; 0: it answers
	diesAfter int
	diesWith  error // the error from then on; nil: that of down
	reloads   []storage.Action
	// badConfig is the error of a reload; nil: it succeeds
	badConfig error
	hooks     []storage.Undelivered
}

func newControl(h *history) *control {
	return &control{history: h, keys: map[string]string{}, runs: map[string]storage.Record{},
		params: map[string]json.RawMessage{}, drained: map[uuid.UUID]bool{}}
}

// record adds an entry to the audit log, or reports that the key was used before.
func (c *control) record(a storage.Action, action, target string) (again bool, err error) {
	if c.history.err != nil {
		return false, c.history.err
	}
	if used, known := c.keys[a.Key]; known {
		if used != action+" "+target {
			return false, fmt.Errorf("key %q was used for %s: %w", a.Key, used, storage.ErrKeyUsed)
		}
		return true, nil
	}
	if a.Key != "" {
		c.keys[a.Key] = action + " " + target
	}
	c.actions = append(c.actions, a)
	c.audit = append([]storage.Audited{{
		ID: id(600 + len(c.audit)), At: noon, Actor: a.Actor, Via: a.Via, Proof: a.Proof,
		Client: a.Client, RequestID: a.RequestID, Replica: a.Replica,
		Action: action, Target: target, Reason: a.Reason,
	}}, c.audit...)
	if c.diesAfter == len(c.actions) {
		c.history.err = cmp.Or(c.diesWith, down().Store.(*history).err)
	}
	return false, nil
}

func (c *control) knows(job string) bool {
	for _, j := range c.history.jobs {
		if j.Name == job {
			return true
		}
	}
	return false
}

func (c *control) Pause(_ context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if target.Kind == storage.TargetJob && !c.knows(target.Name) && c.history.err == nil {
		return storage.Pause{}, storage.ErrNotFound
	}
	for _, p := range c.pauses {
		if p.Target == target {
			return p, nil
		}
	}
	if _, err := c.record(a, "pause", target.String()); err != nil {
		return storage.Pause{}, err
	}
	p := storage.Pause{ID: id(500 + len(c.pauses)), Target: target, At: noon, By: a.Actor,
		Reason: a.Reason}
	c.pauses = append(c.pauses, p)
	return p, nil
}

func (c *control) Resume(_ context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.pauses {
		if p.Target == target {
			if _, err := c.record(a, "resume", target.String()); err != nil {
				return storage.Pause{}, err
			}
			c.pauses = append(c.pauses[:i:i], c.pauses[i+1:]...)
			p.ResumedAt, p.ResumedBy = pointer(noon), a.Actor
			return p, nil
		}
	}
	if c.history.err != nil {
		return storage.Pause{}, c.history.err
	}
	return storage.Pause{}, storage.ErrNotFound
}

func (c *control) Trigger(_ context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(r.Job) && c.history.err == nil {
		return storage.Triggered{}, storage.ErrNotFound
	}
	for _, p := range c.pauses {
		if p.Covers(r.Job, "") && !r.EvenPaused {
			return storage.Triggered{}, &storage.PausedError{Pause: p}
		}
	}
	if r.Key == "" {
		r.Key = fmt.Sprint("drawn ", len(c.runs))
	}
	name := r.Job + " " + r.Key
	if run, known := c.runs[name]; known {
		if string(c.params[name]) != string(r.Params) {
			return storage.Triggered{}, storage.ErrKeyUsed
		}
		return storage.Triggered{Record: run}, nil
	}
	if c.inTheWay != nil && r.AtOnce() {
		return storage.Triggered{}, &storage.BusyError{Job: r.Job, Blocker: *c.inTheWay}
	}
	if _, err := c.record(a, "trigger", "job "+r.Job); err != nil {
		return storage.Triggered{}, err
	}
	if err := r.Check(); err != nil {
		return storage.Triggered{}, err
	}
	scheduledAt, since := r.Begin(noon)
	run := storage.Record{ID: id(700 + len(c.runs)), Job: r.Job, ScheduledAt: scheduledAt,
		Key: r.Key, State: jobs.Waiting, Reason: reasons.Triggered, CreatedAt: noon,
		WaitSince: since}
	c.runs[name], c.params[name] = run, r.Params
	return storage.Triggered{Record: run, Created: true, WaitsFor: c.inTheWay}, nil
}

func (c *control) Cancel(_ context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.history.Run(context.Background(), run)
	if err != nil {
		return storage.Record{}, err
	}
	if r.State.Final() {
		return storage.Record{}, fmt.Errorf("it has ended as %s: %w", r.State, storage.ErrConflict)
	}
	_, err = c.record(a, "cancel", "run "+run.String())
	return r, err
}

func (c *control) Release(_ context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history.err != nil {
		return locking.Released{}, c.history.err
	}
	held := false
	for _, l := range c.history.locks {
		if l.Resource != r.Resource {
			continue
		}
		if held = true; l.Token == r.Token {
			if c.inside && !r.EndTransaction {
				return locking.Released{}, storage.ErrInTransaction
			}
			c.ended = append(c.ended, r)
			_, err := c.record(a, "release", l.Resource.String())
			return locking.Released{ID: uuid.MustParse(l.Holder.Run), Token: l.Token,
				Owner: l.Holder, Requests: []locking.Request{
					{Resource: l.Resource, Mode: l.Mode}}}, err
		}
	}
	if held {
		return locking.Released{}, fmt.Errorf("another holds it now: %w", storage.ErrConflict)
	}
	return locking.Released{}, storage.ErrNotFound
}

func (c *control) Drain(_ context.Context, a storage.Action, session uuid.UUID, drain bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.history.replicas {
		if r.Session == session {
			c.drained[session] = drain
			action := map[bool]string{true: "drain", false: "undrain"}[drain]
			_, err := c.record(a, action, "replica "+r.Name)
			return err
		}
	}
	return storage.ErrNotFound
}

func (c *control) RemoveReplica(_ context.Context, a storage.Action, session uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.history.replicas {
		if r.Session == session {
			_, err := c.record(a, "remove_replica", "replica "+r.Name)
			return err
		}
	}
	return storage.ErrNotFound
}

func (c *control) PutSpec(_ context.Context, a storage.Action, s storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, check := range checks {
		if err := check(c.specs); err != nil {
			return storage.Spec{}, err
		}
	}
	var now int64
	at := len(c.specs)
	for i, known := range c.specs {
		if known.Job == s.Job {
			now, at = known.Version, i
		}
	}
	if s.Version != now {
		return storage.Spec{}, fmt.Errorf("it has version %d: %w", now, storage.ErrConflict)
	}
	if _, err := c.record(a, "put_job", "job "+s.Job); err != nil {
		return storage.Spec{}, err
	}
	s.Version, s.ChangedAt, s.ChangedBy = now+1, noon, a.Actor
	c.specs = append(c.specs[:at:at], s)
	return s, nil
}

func (c *control) RemoveSpec(_ context.Context, a storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, check := range checks {
		if err := check(c.specs); err != nil {
			return err
		}
	}
	if c.history.err != nil {
		return c.history.err
	}
	for i, s := range c.specs {
		if s.Job == job {
			if s.Version != version {
				return storage.ErrConflict
			}
			c.specs = append(c.specs[:i:i], c.specs[i+1:]...)
			_, err := c.record(a, "remove_job", "job "+job)
			return err
		}
	}
	return storage.ErrNotFound
}

func (c *control) ControlState(context.Context, uuid.UUID, int64) (storage.ControlState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return storage.ControlState{Pauses: c.pauses, Specs: c.specs}, c.history.err
}

func (c *control) Audit(_ context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []storage.Audited
	passed := f.Before == nil
	for _, line := range c.audit {
		if !passed {
			passed = line.ID == f.Before.ID && line.At.Equal(f.Before.CreatedAt)
			continue
		}
		if (f.Actor == "" || f.Actor == line.Actor) &&
			(f.Action == "" || f.Action == line.Action) &&
			(f.Target == "" || f.Target == line.Target) && !line.At.Before(f.Since) &&
			(f.Until.IsZero() || line.At.Before(f.Until)) {
			found = append(found, line)
		}
	}
	return found[:min(f.Limit, len(found))], c.history.err
}

func (c *control) UndeliveredHooks(_ context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []storage.Undelivered
	for _, u := range c.hooks {
		if (f.Webhook == "" || f.Webhook == u.Webhook) && (f.Run == uuid.Nil || f.Run == u.Run) &&
			(!f.GivenUp || u.GaveUpAt != nil) && (!f.Failing || u.NextAt != nil) &&
			(f.Before == nil || u.CreatedAt.Before(f.Before.CreatedAt)) &&
			(f.After == nil || u.CreatedAt.After(f.After.CreatedAt)) {
			found = append(found, u)
		}
	}
	limit := min(len(found), f.Limit)
	if f.After != nil {
		return found[len(found)-limit:], c.history.err
	}
	return found[:limit], c.history.err
}

func (c *control) DeliverAgain(_ context.Context, a storage.Action,
	delivery uuid.UUID) (storage.Undelivered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.hooks {
		if u.ID == delivery {
			_, err := c.record(a, "deliver_again", "delivery "+delivery.String())
			return u, err
		}
	}
	return storage.Undelivered{}, cmp.Or(c.history.err, storage.ErrNotFound)
}

// workParams are the params of the handler work.
type workParams struct {
	Rows int `json:"rows"`
}

// withControl returns options whose actions change a control in memory.
func withControl(o Options) (Options, *control) {
	c := newControl(o.Store.(*history))
	c.hooks = undelivered()
	options := operationsOptions()
	options.Control, options.Outbox, options.Replica = c, c, o.Replica
	options.Lookup = o.Store
	o.Operations = operations.New(options)
	o.Reload = func(_ context.Context, by storage.Action) (Reloaded, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reloads = append(c.reloads, by)
		return Reloaded{Replica: o.Replica, Changed: []string{"rollup-sales"}},
			cmp.Or(c.badConfig, c.history.err)
	}
	return o, c
}

// operationsOptions are those of a program with the handler work and the configured job
// rollup-sales.
func operationsOptions() operations.Options {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, workParams) error { return nil }))
	if err != nil {
		panic(err)
	}
	build := func(text json.RawMessage) (jobs.Job, error) {
		var reply struct {
			Name, Handler string
			Params        json.RawMessage
		}
		err := json.Unmarshal(text, &reply)
		return jobs.Job{Name: reply.Name, Handler: reply.Handler, Params: reply.Params,
			MisfireThreshold: 1e9}, err
	}
	hourly, err := schedule.Parse(schedule.Spec{Every: time.Hour}, time.UTC)
	if err != nil {
		panic(err)
	}
	return operations.Options{
		Registry: registry, Build: build,
		Configured: explain.TableOf([]jobs.Job{{Name: "rollup-sales", Handler: "work",
			Overridable: []string{"rows"}, Schedule: hourly}}).Job,
		Log: zerolog.Nop(),
		Complete: func(written []byte, _ map[string]schedule.Schedule) (json.RawMessage, error) {
			if job, err := build(written); err != nil || job.Name == "" {
				return nil, &operations.SpecError{
					Problems: []operations.SpecProblem{{Line: 3, Column: 4, Key: "name",
						Message: "found nothing, expected the job's name"}}}
			}
			return written, nil
		},
	}
}

func acting(t *testing.T) (*Server, *control) {
	t.Helper()
	o, c := withControl(contention())
	o.Changes = newChanges()
	return newServer(t, o), c
}

// undelivered returns three deliveries that failed. One of them was given up.
func undelivered() []storage.Undelivered {
	return []storage.Undelivered{
		{ID: id(9100), Webhook: "pager", Run: id(31), Job: "sync-vendors", State: jobs.Failed,
			CreatedAt: ago(3 * time.Minute), Tries: 4, NextAt: pointer(noon.Add(90 * time.Second)),
			Error: "POST https://pager.example/hook: 503 Service Unavailable"},
		{ID: id(9101), Webhook: "chat", Run: id(32), Job: "merge-events", State: jobs.Lost,
			CreatedAt: ago(5 * time.Minute), Tries: 2, NextAt: pointer(noon.Add(20 * time.Second)),
			Error: "dial tcp 10.0.3.40:443: i/o timeout"},
		{ID: id(10), Webhook: "pager", Run: id(33), Job: "report/weekly", State: jobs.TimedOut,
			CreatedAt: ago(26 * time.Hour), Tries: 12, GaveUpAt: pointer(ago(2 * time.Hour)),
			Error: "POST https://pager.example/hook: 410 Gone"},
	}
}
