package simstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PutSpec implements storage.Actions.
func (s *Store) PutSpec(ctx context.Context, a storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	if err := spec.Check(); err != nil {
		return storage.Spec{}, fmt.Errorf("put_job: %w", err)
	}
	a = a.Asking(string(spec.Text), strconv.FormatInt(spec.Version, 10))
	return action(ctx, s, a, "put_job", "job "+spec.Job, func(d *actionTx) (storage.Spec, error) {
		known, err := s.changeable(spec.Job, checks)
		if err != nil {
			return storage.Spec{}, err
		}
		put, err := rules.PutSpec(known, spec, a.Actor, d.now)
		if err != nil {
			return storage.Spec{}, err
		}
		s.control.specs[spec.Job] = &put
		d.controlState, d.detail = true, map[string]any{"version": put.Version, "spec": put.Text}
		return put, nil
	})
}

// RemoveSpec implements storage.Actions.
func (s *Store) RemoveSpec(ctx context.Context, a storage.Action, name string, version int64,
	checks ...storage.SpecCheck) error {
	if err := (storage.Target{Kind: storage.TargetJob, Name: name}).Check(); err != nil {
		return fmt.Errorf("remove_job: %w", err)
	}
	a = a.Asking(strconv.FormatInt(version, 10))
	_, err := action(ctx, s, a, "remove_job", "job "+name, func(d *actionTx) (struct{}, error) {
		known, err := s.changeable(name, checks)
		if err != nil {
			return struct{}{}, err
		}
		removed, err := rules.RemoveSpec(known, name, version, a.Actor, d.now)
		if err != nil {
			return struct{}{}, err
		}
		cancelled := 0
		for _, r := range s.waiting {
			if r.Job == name {
				s.cancel(r, d, a.By("its job was removed"))
				cancelled++
			}
		}
		s.control.specs[name] = &removed
		d.controlState, d.detail = true,
			map[string]any{"version": removed.Version, "cancelled_runs": cancelled}
		s.deactivateJob(name, d)
		return struct{}{}, nil
	})
	return err
}

// changeable returns the job's spec, or nil if it has none. It returns an error if the job comes
// from the configuration or a check fails.
func (s *Store) changeable(job string, checks []storage.SpecCheck) (*storage.Spec, error) {
	if s.isConfigured(job) {
		return nil, fmt.Errorf("job %s: %w", job, storage.ErrFromConfig)
	}
	var added []storage.Spec
	for _, spec := range s.control.specs {
		if !spec.Removed {
			added = append(added, *spec)
		}
	}
	slices.SortFunc(added, func(a, b storage.Spec) int { return strings.Compare(a.Job, b.Job) })
	for _, check := range checks {
		if err := check(added); err != nil {
			return nil, err
		}
	}
	return s.control.specs[job], nil
}

// deactivateJob removes the job from all sessions. No definition has a negative version.
func (s *Store) deactivateJob(name string, d *actionTx) {
	for _, l := range s.sessions {
		delete(l.carried, name)
		delete(l.took, name)
	}
	if j := s.jobs[name]; j != nil && j.version > 0 {
		s.changes = append(s.changes,
			Change{At: d.now, Definition: j.last(), Version: j.version, Checked: j.checkedUntil,
				Removed: true})
		j.version, j.updatedAt = -j.version, d.now
		s.definitions++
	}
}

// isConfigured reports whether the job comes from the configuration: a session has it from there,
// or no session has it and that was its last known source.
func (s *Store) isConfigured(name string) bool {
	j := s.jobs[name]
	if j == nil {
		return false
	}
	carried := false
	for _, l := range s.sessions {
		carried = carried || len(l.carried) > 0
		if version, has := l.carried[name]; has &&
			j.definitions[version-1].Source != storage.FromStore {
			return true
		}
	}
	return !carried && j.version > 0 && j.last().Source != storage.FromStore
}
