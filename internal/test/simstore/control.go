package simstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// control is the state of the operators' actions.
type control struct {
	generation int64
	pauses     []storage.Pause // the oldest first
	specs      map[string]*storage.Spec
	cancels    map[uuid.UUID]string // the actor of each cancel
	audit      []storage.Audited    // the oldest first
	links      []storage.AuditLink  // of the first entries of audit
	// the last link, and the last one that pruning deleted
	head, anchor storage.ChainHead
	keys         map[actorKey]keyed
	listeners    map[*func()]bool
}

// actorKey is a key of an actor.
type actorKey struct{ actor, key string }

// keyed is an earlier action with a key.
type keyed struct {
	action, target, request string

	outcome any
}

func newControl() control {
	return control{specs: map[string]*storage.Spec{}, cancels: map[uuid.UUID]string{},
		keys: map[actorKey]keyed{}, listeners: map[*func()]bool{}}
}

// actionTx is the transaction of one action, under the store's lock.
type actionTx struct {
	now          time.Time
	detail       map[string]any
	controlState bool // it changes the control state
	silent       bool // it changed nothing and has no audit entry
}

// action performs an operator's action and writes its entry in the audit log.
func action[T any](ctx context.Context, s *Store, a storage.Action, action, target string,
	do func(d *actionTx) (T, error)) (outcome T, err error) {
	if err := a.Check(); err != nil {
		return outcome, fmt.Errorf("%s: %w", action, err)
	}
	if err := s.enter(ctx); err != nil {
		return outcome, err
	}
	outcome, err = actionAlone(s, a, action, target, do)
	var heard []func()
	for listener := range s.control.listeners {
		heard = append(heard, *listener)
	}
	s.mu.Unlock()
	if err != nil {
		return outcome, fmt.Errorf("%s: %w", action, err)
	}
	if t, ok := any(outcome).(storage.Triggered); ok && t.Adopted() {
		return outcome, nil
	}
	for _, notify := range heard {
		notify()
	}
	return outcome, nil
}

func actionAlone[T any](s *Store, a storage.Action, action, target string,
	do func(d *actionTx) (T, error)) (outcome T, err error) {
	c := &s.control
	if did, known := c.keys[actorKey{a.Actor, a.Key}]; known && a.Key != "" {
		err = a.CheckKey(action, target, did.action, did.target, did.request)
		if err != nil {
			return outcome, err
		}
		return did.outcome.(T), nil
	}
	d := &actionTx{now: s.writeTime()}
	if outcome, err = do(d); err != nil || d.silent {
		return outcome, err
	}
	entry := storage.Audited{ID: uuid.New(), At: d.now, Actor: a.Actor, Via: a.Via,
		Proof: a.Proof, Client: a.Client, RequestID: a.RequestID, Replica: a.Replica,
		Action: action, Target: target, Reason: a.Reason}
	if d.detail != nil {
		if entry.Detail, err = json.Marshal(d.detail); err != nil {
			return outcome, err
		}
	}
	c.audit = append(c.audit, entry)
	if a.Key != "" {
		c.keys[actorKey{a.Actor, a.Key}] = keyed{action, target, a.Request(), outcome}
	}
	if d.controlState {
		c.generation++
	}
	return outcome, nil
}

// ControlState implements storage.Control.
func (s *Store) ControlState(ctx context.Context, id uuid.UUID,
	since int64) (storage.ControlState, error) {
	if err := s.enter(ctx); err != nil {
		return storage.ControlState{}, err
	}
	defer s.mu.Unlock()
	o := storage.ControlState{Generation: s.control.generation}
	if l := s.sessions[id]; l != nil {
		o.Draining = l.draining
		for run, by := range s.control.cancels {
			if r := s.runs[run]; r != nil && r.claim != nil && r.claim.session == l {
				if o.Cancels == nil {
					o.Cancels = map[uuid.UUID]string{}
				}
				o.Cancels[run] = by
			}
		}
		for _, run := range l.claims {
			if r := s.runs[run]; r != nil && time.Now().Before(r.watched) {
				o.Watched = append(o.Watched, run)
			}
		}
	}
	if o.Generation == since {
		return o, nil
	}
	for _, p := range s.control.pauses {
		if p.ResumedAt == nil {
			o.Pauses = append(o.Pauses, p)
		}
	}
	for _, spec := range s.control.specs {
		if !spec.Removed {
			o.Specs = append(o.Specs, *spec)
		}
	}
	slices.SortFunc(o.Specs, func(a, b storage.Spec) int { return cmp.Compare(a.Job, b.Job) })
	return o, nil
}

// Listen implements storage.Control.
func (s *Store) Listen(ctx context.Context, heard func()) error {
	s.mu.Lock()
	s.control.listeners[&heard] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.control.listeners, &heard)
	}()
	heard()
	<-ctx.Done()
	return context.Cause(ctx)
}

// Audit implements storage.Control.
func (s *Store) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var entries []storage.Audited
	for _, l := range s.control.audit {
		if (f.Actor == "" || l.Actor == f.Actor) && (f.Action == "" || l.Action == f.Action) &&
			(f.Target == "" || l.Target == f.Target) &&
			(f.Before == nil || laterEntry(lineAt(f.Before), l) < 0) &&
			(f.After == nil || laterEntry(l, lineAt(f.After)) < 0) &&
			(f.Since.IsZero() || !l.At.Before(f.Since)) &&
			(f.Until.IsZero() || l.At.Before(f.Until)) {
			entries = append(entries, l)
		}
	}
	slices.SortFunc(entries, laterEntry)
	if f.OldestFirst {
		slices.Reverse(entries)
	}
	return entries[:min(storage.PageSize(f.Limit), len(entries))], nil
}

func lineAt(c *storage.RunCursor) storage.Audited {
	return storage.Audited{At: c.CreatedAt, ID: c.ID}
}

func laterEntry(a, b storage.Audited) int {
	return cmp.Or(b.At.Compare(a.At), bytes.Compare(b.ID[:], a.ID[:]))
}

// PutPause inserts a pause, which may have ended, for tests.
func (s *Store) PutPause(p storage.Pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control.pauses = append(s.control.pauses, p)
}
