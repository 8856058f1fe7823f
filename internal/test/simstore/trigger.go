package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Trigger implements jobs.Control.
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
				if !storage.SameParams(known.Params, r.Params) {
					return storage.Triggered{},
						fmt.Errorf("key %q of job %s was used with other params: %w", r.Key, r.Job,
							storage.ErrKeyUsed)
				}
				answer := storage.Triggered{Record: known.record()}
				var err error
				if known.State == jobs.Waiting {
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
		f.Recovery = 0
		fresh := newRun(uuid.New(), f, d.now)
		fresh.keyActor = a.Actor
		fresh.WaitSince, fresh.Reason, fresh.Detail, fresh.Params = d.now, reasons.Triggered,
			byWhom("triggered", a), r.Params
		fresh.StartBy = r.StartBy(d.now)
		obstacle, err := s.findBlocker(fresh, d.now)
		if err != nil {
			return storage.Triggered{}, err
		}
		if obstacle != nil && r.AtOnce() {
			return storage.Triggered{}, &storage.BusyError{Job: r.Job, Obstacle: *obstacle}
		}
		s.add(fresh)
		d.detail = map[string]any{"run": fresh.ID, "key": r.Key}
		return storage.Triggered{Record: fresh.record(), Created: true, WaitsFor: obstacle}, nil
	})
}

// findBlocker returns what blocks a run of the job's active definition that has waited since then.
// If no replica has registered the job yet, only its own name is known.
func (s *Store) findBlocker(r *run, since time.Time) (*storage.Obstacle, error) {
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
	return &storage.Obstacle{Blocker: s.blocker(p), Reason: p.Reason()}, nil
}

// Cancel implements jobs.Control.
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
			s.cancel(r, d, byWhom("cancelled", a))
		case jobs.Running:
			d.controlState = true
			if _, asked := s.control.cancels[id]; !asked {
				s.control.cancels[id] = a.Actor
			}
		default:
			return storage.Record{}, fmt.Errorf("run %s has ended as %s: %w", id, r.State,
				storage.ErrConflict)
		}
		return r.record(), nil
	})
}

// cancel ends a waiting run.
func (s *Store) cancel(r *run, d *actionTx, detail string) {
	s.unblock(r, nil, jobs.Cancelled, d.now, d.now)
	s.settled(r, jobs.Cancelled)
	r.Reason, r.Detail, r.FinishedAt = reasons.Cancelled, detail, &d.now
}

// Release implements jobs.Control. This store has no open transactions.
func (s *Store) Release(ctx context.Context, a storage.Action,
	q storage.ReleaseRequest) (locking.Released, error) {
	if err := q.Check(); err != nil {
		return locking.Released{}, fmt.Errorf("release: %w", err)
	}
	target := string(q.Resource.Kind()) + " " + q.Resource.Path()
	return action(ctx, s, a.Asking(fmt.Sprint(q.Token)), "release", target, func(d *actionTx) (locking.Released, error) {
		c := s.claims[q.Token]
		holds := false
		if c != nil {
			for _, held := range c.held {
				holds = holds || held.Resource == q.Resource
			}
		}
		if !holds {
			return locking.Released{},
				fmt.Errorf("token %d does not hold %s, which is held by %s: %w", q.Token,
					q.Resource, s.holders(q.Resource), storage.ErrConflict)
		}
		r := c.run
		released := locking.Released{ID: r.ID, Token: q.Token, Owner: ownerOf(r),
			Requests: slices.Clone(c.held)}
		slices.SortFunc(released.Requests, func(a, b locking.Request) int {
			return strings.Compare(a.Resource.Key(), b.Resource.Key())
		})
		s.give(c)
		r.State, r.Reason, r.Detail, r.FinishedAt = jobs.Lost, reasons.Released,
			byWhom("its lock was released", a), &d.now
		d.detail = map[string]any{"token": q.Token, "holder": released.Owner}
		return released, nil
	})
}

// holders describes the holders of the resource.
func (s *Store) holders(resource locking.Resource) string {
	var holders []string
	for _, c := range s.claims {
		if slices.ContainsFunc(c.held, func(r locking.Request) bool {
			return r.Resource == resource
		}) {
			holders = append(holders, fmt.Sprintf("%s on %s with token %d", c.run.Job,
				c.run.Replica, c.token))
		}
	}
	if len(holders) == 0 {
		return "no run"
	}
	return strings.Join(slices.Sorted(slices.Values(holders)), " and ")
}
