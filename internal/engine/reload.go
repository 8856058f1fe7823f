package engine

import (
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Revision lists the differences between two configurations' jobs, by name.
type Revision struct {
	Added, Changed, Removed []string
}

// SetJobs replaces the jobs of Options.Jobs. If the jobs are invalid it returns an error and
// changes nothing. It builds the added jobs again.
//
// The effect is that of a deploy of this replica, but its session goes on and active runs are not
// touched. A new definition gets the job's next version, and the active definition is decided as
// the package documentation describes. This replica does not fire a removed job any more. A run
// between two attempts continues if this replica made the attempt that has just ended. Other
// firings of the job that wait on this replica end with reasons.JobGone: as skipped, or as
// cancelled if an attempt has begun. The store is notified within about a second, or when it is
// available.
func (s *Scheduler) SetJobs(jobs []jobs.Job) (Revision, error) {
	next, err := newCronTable(s.options.Registry, s.options.Middleware, jobs)
	if err != nil {
		return Revision{}, err
	}
	revision := s.table.revise(next.all())
	s.controlState.rebuildAdded()
	s.activation.enrollLater()
	signal(s.activation.revised)
	return revision, nil
}

// revise replaces the entries of the configuration. An unchanged entry stays, with its position in
// the timetable.
func (t *cronTable) revise(next []*entry) (r Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := make(map[string]bool, len(next))
	for _, e := range next {
		there[e.Name] = true
		switch before := t.entries[e.Name]; {
		case before == nil:
			r.Added = append(r.Added, e.Name)
		case before.same(e):
			continue
		default:
			r.Changed = append(r.Changed, e.Name)
		}
		t.replace(e)
	}
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		if e := t.entries[name]; e.spec == nil && !there[name] {
			r.Removed = append(r.Removed, name)
			t.withdraw(e)
			t.discard(name)
		}
	}
	t.sorted, t.config, t.revised = nil, "", true
	return r
}

// same reports whether two entries of one job have the same definition, and equal fields that its
// hash does not cover.
func (e *entry) same(other *entry) bool {
	return e.hash == other.hash && e.Description == other.Description &&
		slices.Equal(e.Overridable, other.Overridable) && slices.Equal(e.Secrets, other.Secrets)
}

// withdraw marks the definition to be withdrawn from the session. The caller has the table's lock.
func (t *cronTable) withdraw(e *entry) {
	if t.withdrawn == nil {
		t.withdrawn = map[string]*entry{}
	}
	t.withdrawn[e.Name] = e
}

// isUnsettled reports whether the store has not been notified of withdrawn definitions yet.
func (t *cronTable) isUnsettled() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.revised || len(t.withdrawn) > 0
}

// unsettled returns the withdrawn definitions, for settle. It does not include later ones.
func (t *cronTable) unsettled() map[string]*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revised = false
	return maps.Clone(t.withdrawn)
}

// settle removes withdrawn definitions of which the store was notified.
func (t *cronTable) settle(reported map[string]*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, e := range reported {
		if t.withdrawn[name] == e {
			delete(t.withdrawn, name)
		}
	}
}

// reviseAgain marks the configuration's jobs to be sent to the store again.
func (t *cronTable) reviseAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revised = true
}

func namesOf(entries map[string]*entry) []string { return slices.Sorted(maps.Keys(entries)) }
