package simstore

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// SealAudit implements storage.AuditChain. The first entries of the log have links.
func (s *Store) SealAudit(ctx context.Context, limit int) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	c := &s.control
	entries := c.audit[len(c.links):]
	links := storage.SealAll(c.head, entries[:min(limit, len(entries))])
	if len(links) == 0 {
		return 0, nil
	}
	c.links, c.head = append(c.links, links...), links[len(links)-1].ChainHead
	return len(links), nil
}

// AuditChain implements storage.AuditChain.
func (s *Store) AuditChain(ctx context.Context) (storage.ChainState, error) {
	if err := s.enter(ctx); err != nil {
		return storage.ChainState{}, err
	}
	defer s.mu.Unlock()
	c := &s.control
	state := storage.ChainState{Now: s.now(), Anchor: c.anchor, Head: c.head,
		Unsealed: len(c.audit) - len(c.links)}
	if state.Unsealed > 0 {
		state.OldestUnsealed = &c.audit[len(c.links)].At
	}
	if len(c.links) > 0 {
		state.HeadAt = &c.links[len(c.links)-1].At
	}
	return state, nil
}

// UnsealedAge implements storage.AuditChain.
func (s *Store) UnsealedAge(ctx context.Context) (time.Duration, error) {
	state, err := s.AuditChain(ctx)
	if err != nil || state.OldestUnsealed == nil {
		return 0, err
	}
	return max(0, state.Now.Sub(*state.OldestUnsealed)), nil
}

// AuditLinks implements storage.AuditChain.
func (s *Store) AuditLinks(ctx context.Context, after int64,
	limit int) ([]storage.AuditLink, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	links := slices.DeleteFunc(slices.Clone(s.control.links), func(l storage.AuditLink) bool {
		return l.Seq <= after
	})
	return links[:min(limit, len(links))], nil
}

// pruneAudit deletes the first entries of the log with their links, and returns how many.
func (c *control) pruneAudit(before time.Time, limit int) (n int) {
	for n < min(limit, len(c.audit)) && c.audit[n].At.Before(before) {
		n++
	}
	if linked := min(n, len(c.links)); linked > 0 {
		c.anchor = c.links[linked-1].ChainHead
		c.links = c.links[linked:]
	}
	c.audit = c.audit[n:]
	return n
}
