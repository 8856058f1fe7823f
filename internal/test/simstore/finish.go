package simstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Finish implements storage.Firings.
func (s *Store) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	if err := storage.CheckFinishes(requests); err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.writeTime()
	done := make([]bool, len(requests))
	for i, r := range requests {
		done[i] = s.finish(r, now)
	}
	return done, nil
}

func (s *Store) finish(q storage.FinishRequest, now time.Time) bool {
	c := s.claims[q.Token]
	if c == nil || c.run.ID != q.Run {
		r := s.runs[q.Run]
		return r != nil && q.Recorded(r.State, r.Token)
	}
	r := c.run
	s.give(c)
	actor, cancelled := s.control.cancels[r.ID]
	if cancelled = cancelled && q.GivenBack; cancelled {
		q = rules.CancelInstead(q, actor)
	}
	if q.State == jobs.Waiting && !q.GivenBack {
		r.addAttempt(q, now)
	} else if q.Output != "" {
		r.output = output.PlainText(q.Output)
	}
	r.Reason, r.Detail, r.Error = q.Reason, output.PlainText(q.Detail), output.PlainText(q.Error)
	if q.Result != nil {
		r.result = q.Result
	}
	if q.State == jobs.Succeeded && q.Saved != nil {
		s.saved[r.Job] = q.Saved
	}
	r.State = q.State
	if q.GivenBack {
		r.Attempt, r.StartedAt, r.Token, r.Session, r.Waited = 0, nil, 0, uuid.Nil, nil
	}
	s.freeKey(r)
	if q.State == jobs.Waiting {
		r.WaitSince = now
		s.waiting[r.ID] = r
		if q.GivenBack {
			r.Replica = ""
			return true
		}
		r.Attempt++
		r.RetryWaits = append(r.RetryWaits, storage.RetryWait{From: now})
		return true
	}
	r.FinishedAt = &now
	s.countEnded(r)
	if q.State == jobs.Lost {
		s.recover(r, now)
	}
	return !cancelled
}

// recover adds the successor of a lost run, or records why there is none.
func (s *Store) recover(lost *run, now time.Time) {
	j := s.jobs[lost.Job]
	_, cancelled := s.control.cancels[lost.ID]
	if j == nil || j.version <= 0 || !j.last().Recover || cancelled {
		return
	}
	next, more := lost.Successor(lost.Reason, now)
	if !more {
		lost.Detail += storage.NotRecovered
	} else if f := (run{Run: next}); s.firings[f.unique()] == nil {
		s.add(next)
	}
}

// Revoke implements storage.Upkeep.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if c := s.claims[token]; c != nil {
		s.finish(storage.FinishRequest{Run: c.run.ID, Token: token, State: state, Reason: reason,
			Detail: storage.RevokedDetail}, s.writeTime())
	}
	return nil
}
