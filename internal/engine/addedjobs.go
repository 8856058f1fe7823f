package engine

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// applySpecs updates the table with the added jobs, and reports whether it changed.
func (o *controlState) applySpecs(specs []storage.Spec) (changed bool) {
	there := make(map[string]bool, len(specs))
	for _, s := range specs {
		there[s.Job] = true
		changed = o.applySpec(s) || changed
	}
	for _, e := range o.table.all() {
		if e.spec != nil && !there[e.Name] {
			o.table.remove(e.Name)
			o.log.Info().Str("job", e.Name).Msg("added job removed")
			changed = true
		}
	}
	for job := range o.refused {
		if !there[job] {
			delete(o.refused, job)
		}
	}
	return changed
}

// applySpec puts an added job into the table if it is new or changed, and reports whether it did. A
// job that this replica cannot fire is logged once and left to other replicas.
func (o *controlState) applySpec(s storage.Spec) bool {
	before := o.table.get(s.Job)
	if before != nil && before.spec != nil && before.spec.Version == s.Version && !o.rebuild ||
		o.refused[s.Job] == s.Version {
		return false
	}
	if before != nil && before.spec == nil {
		o.refused[s.Job] = s.Version
		o.log.Warn().Str("job", s.Job).Str("added_by", s.ChangedBy).
			Msg("added job ignored, the configuration has a job of that name")
		return false
	}
	e, err := o.entry(s)
	if err != nil {
		o.refused[s.Job] = s.Version
		o.log.Warn().Err(err).Str("job", s.Job).Int64("spec", s.Version).
			Msg("added job cannot be fired by this replica")
		if before == nil {
			return false
		}
		o.table.withdrawJob(s.Job) // the previous definition must not be fired any more
		return true
	}
	delete(o.refused, s.Job)
	if before != nil && before.same(e) {
		return false
	}
	o.table.put(e)
	return true
}

var errNoBuild = errors.New("this replica does not support jobs added at run time")

func (o *controlState) entry(s storage.Spec) (*entry, error) {
	if o.build == nil {
		return nil, errNoBuild
	}
	job, err := o.build(s.Text)
	if err != nil {
		return nil, err
	}
	if job.Name != s.Job {
		return nil, fmt.Errorf("spec names the job %q", job.Name)
	}
	e, err := newEntry(o.registry, &job)
	if err != nil {
		return nil, err
	}
	e.spec = &s
	e.hash = storage.HashOfSpec(e.hash, s.Version)
	return e, nil
}
