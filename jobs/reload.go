package jobs

import (
	"maps"
	"slices"
)

// Revision is how a configuration's jobs differ from those before, by name.
type Revision struct {
	Added, Changed, Removed []string
}

// SetJobs fires these jobs in the place of those of Options.Jobs. An error says what is wrong with
// them; then nothing has changed. Build is asked again for the jobs that were added at run time.
//
// It is as a deploy of this replica alone, but for its session, which goes on: what runs is not
// touched, a definition that the store has not seen gets the job's next version, and what is due
// is decided as package jobs has it of definitions. Of a job that is removed nothing more starts
// here. What waits of it here ends as skipped, with ReasonJobGone. The store is told within about
// a second, or as soon as it answers.
func (s *Scheduler) SetJobs(jobs []Job) (Revision, error) {
	next, err := newCronTable(s.engine.registry, jobs)
	if err != nil {
		return Revision{}, err
	}
	revision := s.table.revise(next.all())
	s.engine.controlState.again()
	s.engine.controlState.activation.enrollLater()
	signal(s.engine.controlState.activation.revised)
	return revision, nil
}

// revise takes the entries in the place of those of the configuration. An entry that is the same
// stays, with its place in the timetable.
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
			delete(t.entries, name)
		}
	}
	t.sorted, t.config, t.revised = nil, "", true
	return r
}

// same reports whether two entries of one job are the same to everybody.
func (e *entry) same(other *entry) bool {
	return e.definition.Hash == other.definition.Hash &&
		e.definition.Description == other.definition.Description
}

// withdraw notes that the store is to be told that the session carries the definition no longer.
// The caller has the table's lock.
func (t *cronTable) withdraw(e *entry) {
	if t.withdrawn == nil {
		t.withdrawn = map[string]*entry{}
	}
	t.withdrawn[e.Name] = e
}

// isUnsettled reports whether the store is still to be told of what is withdrawn.
func (t *cronTable) isUnsettled() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.revised || len(t.withdrawn) > 0
}

// unsettled returns what is withdrawn, for settle. What is withdrawn from then on is not in it.
func (t *cronTable) unsettled() map[string]*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revised = false
	return maps.Clone(t.withdrawn)
}

// settle forgets what the store was told.
func (t *cronTable) settle(told map[string]*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, e := range told {
		if t.withdrawn[name] == e {
			delete(t.withdrawn, name)
		}
	}
}

// reviseAgain has the store told again of the configuration's jobs.
func (t *cronTable) reviseAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revised = true
}

func namesOf(entries map[string]*entry) []string { return slices.Sorted(maps.Keys(entries)) }
