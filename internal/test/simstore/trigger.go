package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Trigger implements storage.Actions.
func (s *Store) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	if err := r.Check(); err != nil {
		return storage.Triggered{}, fmt.Errorf("trigger: %w", err)
	}
	r.Key, a.Key = cmp.Or(r.Key, uuid.NewString()), ""
	return action(ctx, s, a, "trigger", "job "+r.Job, func(d *actionTx) (storage.Triggered, error) {
		f := storage.Firing{Job: r.Job, ScheduledAt: d.now, Key: r.Key}
		for f.Recovery = storage.MaxRecoveries; f.Recovery >= 0; f.Recovery-- {
			unique := firingOf(f)
			unique.keyActor = a.Actor
			if known := s.firings[unique]; known != nil {
				d.silent = true
				first := known
				if unique.recovery = 0; f.Recovery > 0 {
					first = s.firings[unique]
				}
				if !storage.SameParams(known.Params, r.Params) ||
					first != nil && !r.SameBegin(first.Record) {
					return storage.Triggered{}, r.KeyUsed()
				}
				answer := storage.Triggered{Record: known.Record}
				var err error
				if known.State == jobs.Waiting && !known.StartsLater(d.now) {
					answer.WaitsFor, err = s.findBlocker(known, known.WaitSince)
				}
				return answer, err
			}
		}
		if !s.isKnown(r.Job) {
			return storage.Triggered{}, fmt.Errorf("job %s: %w", r.Job, storage.ErrNotFound)
		}
		if p := s.pauseOver(r.Job); p != nil && !r.EvenPaused {
			return storage.Triggered{}, &storage.PausedError{Pause: *p}
		}
		adopter := ""
		if l, live := s.liveSession(r.Adopter); live && l.adopts() {
			adopter = l.Replica
		}
		fresh := rules.NewTriggered(a, r, adopter, d.now)
		var blocker *storage.RunBlocker
		if !fresh.StartsLater(d.now) {
			var err error
			if blocker, err = s.findBlocker(&run{Run: fresh}, d.now); err != nil {
				return storage.Triggered{}, err
			}
		}
		if blocker != nil && r.AtOnce() {
			return storage.Triggered{}, &storage.BusyError{Job: r.Job, Blocker: *blocker}
		}
		s.add(fresh)
		detail := map[string]any{"run": fresh.ID, "key": r.Key}
		if r.Later() {
			detail["scheduled_at"] = fresh.ScheduledAt
		}
		d.detail = detail
		return storage.Triggered{Record: fresh.Record, Created: true, WaitsFor: blocker}, nil
	})
}

// findBlocker returns what blocks a run of the job's active definition that has waited since then.
// If no replica has registered the job yet, only its own name is known.
func (s *Store) findBlocker(r *run, since time.Time) (*storage.RunBlocker, error) {
	d := storage.Definition{Name: r.Job}
	if j := s.jobs[r.Job]; j != nil && j.version > 0 {
		d = j.last()
	}
	wants, err := d.Requests()
	if err != nil {
		return nil, err
	}
	p := s.against(r, since, wants)
	if p == nil {
		return nil, nil
	}
	return &storage.RunBlocker{Blocker: s.blocker(p), Reason: p.Reason()}, nil
}

// Cancel implements storage.Actions.
func (s *Store) Cancel(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Record, error) {
	target := "run " + id.String()
	return action(ctx, s, a, "cancel", target, func(d *actionTx) (storage.Record, error) {
		r := s.runs[id]
		if r == nil {
			return storage.Record{}, fmt.Errorf("run %s: %w", id, storage.ErrNotFound)
		}
		d.detail = map[string]any{"job": r.Job, "scheduled_at": r.ScheduledAt, "state": r.State}
		switch r.State {
		case jobs.Waiting:
			s.cancel(r, d, a.By("cancelled"))
		case jobs.Running:
			d.controlState = true
			if _, asked := s.control.cancels[id]; !asked {
				s.control.cancels[id] = a.Actor
			}
		default:
			return storage.Record{}, fmt.Errorf("run %s has ended as %s: %w", id, r.State,
				storage.ErrConflict)
		}
		return r.Record, nil
	})
}

// cancel ends a waiting run.
func (s *Store) cancel(r *run, d *actionTx, detail string) {
	next := r.Run
	next.End(jobs.Cancelled, reasons.Cancelled, detail, d.now)
	s.update(r, next, d.now)
}

// Release implements storage.Actions. This store has no open transactions.
func (s *Store) Release(ctx context.Context, a storage.Action,
	q storage.ReleaseRequest) (locking.Released, error) {
	if err := q.Check(); err != nil {
		return locking.Released{}, fmt.Errorf("release: %w", err)
	}
	target := string(q.Resource.Kind()) + " " + q.Resource.Path()
	return action(ctx, s, a.Asking(fmt.Sprint(q.Token)), "release", target,
		func(d *actionTx) (locking.Released, error) {
			c := s.claims[q.Token]
			if c == nil || !c.holds(q.Resource) {
				return locking.Released{}, q.NotHeld(s.holders(q.Resource))
			}
			r := c.run
			released := locking.Released{ID: r.ID, Token: q.Token, Owner: r.Owner(),
				Requests: slices.Clone(c.held)}
			slices.SortFunc(released.Requests, func(a, b locking.Request) int {
				return strings.Compare(a.Resource.Key(), b.Resource.Key())
			})
			s.give(c)
			r.State, r.Reason, r.Detail, r.FinishedAt = jobs.Lost, reasons.Released,
				a.By("its lock was released"), &d.now
			s.countEnded(r)
			d.detail = map[string]any{"token": q.Token, "holder": released.Owner}
			return released, nil
		})
}

// holders describes the holders of the resource.
func (s *Store) holders(resource locking.Resource) []string {
	var holders []string
	for _, c := range s.claims {
		if c.holds(resource) {
			holders = append(holders, fmt.Sprintf("%s on %s with token %d", c.run.Job,
				c.run.Replica, c.token))
		}
	}
	slices.Sort(holders)
	return holders
}
