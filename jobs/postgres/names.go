package postgres

import (
	"iter"
	"slices"

	"github.com/holdfast-dev/holdfast/locking"
)

// names are the names of requests and of all their ancestors, in byte order and each once.
type names []string

func allNames(wanted ...[]locking.Request) names {
	n := 0
	for _, requests := range wanted {
		n += len(requests)
	}
	all := make(names, 0, 2*n) // most names have one ancestor or none
	for _, requests := range wanted {
		for p := range probes(requests) {
			all = append(all, p.name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// place returns the index of a name that is one of them.
func (n names) place(name string) int {
	i, _ := slices.BinarySearch(n, name)
	return i
}

// probe is one name to look up for a request: its own, or an ancestor's.
type probe struct {
	name  string
	mode  locking.Mode
	slots int
	own   bool
	deep  bool // own, and there may be names beneath it
}

// probes returns the names to look up for each request: its own name, and then its ancestors.
func probes(requests []locking.Request) iter.Seq[probe] {
	return func(yield func(probe) bool) {
		for _, r := range requests {
			p := probe{name: r.Resource.Key(), mode: r.Mode, slots: r.Slots, own: true,
				deep: mayHaveDescendants(r.Resource)}
			if !yield(p) {
				return
			}
			p.own, p.deep = false, false
			for above, ok := r.Resource.Parent(); ok; above, ok = above.Parent() {
				if p.name = above.Key(); !yield(p) {
					return
				}
			}
		}
	}
}

// probeColumns returns the columns of the probes of each id.
func probeColumns(ids []rawID, wanted [][]locking.Request) []any {
	var owners []rawID
	var names, modes []string
	var slots []int
	var own, deep []bool
	for i, requests := range wanted {
		for p := range probes(requests) {
			owners, names, modes = append(owners, ids[i]), append(names, p.name),
				append(modes, string(p.mode))
			slots, own, deep = append(slots, p.slots), append(own, p.own), append(deep, p.deep)
		}
	}
	return []any{owners, names, modes, slots, own, deep}
}

// mayHaveDescendants is false for schema/table, which has no descendants, and for names that are no
// paths.
func mayHaveDescendants(r locking.Resource) bool {
	_, isBeneath := r.Parent()
	return r.Kind().HasHierarchy() && (r.Kind() != locking.KindTable || !isBeneath)
}

// waves splits the requests, in order, into sets of indexes: see waveOf.
func waves(wanted [][]locking.Request) [][]int {
	var all [][]int
	for i, wave := range waveOf(wanted, allNames(wanted...)) {
		if wave == len(all) {
			all = append(all, nil)
		}
		all[wave] = append(all[wave], i)
	}
	return all
}

// waveOf returns the wave of each of the wanted lists of requests. No two members of a wave want
// conflicting resources, so no grant within a wave can refuse another member, and one statement may
// decide on all of it. A request comes in a later wave than all those before it with which it
// conflicts. names are those of all requests.
func waveOf(wanted [][]locking.Request, names names) []int {
	all := make([]int, len(wanted))
	marks := make([]waveMarks, len(names))
	for i, requests := range wanted {
		for p := range probes(requests) {
			all[i] = max(all[i], marks[names.place(p.name)].after(p))
		}
		for p := range probes(requests) {
			marks[names.place(p.name)].add(p, all[i]+1)
		}
	}
	return all
}

// waveMarks are the first waves after the requests for a name and beneath it.
type waveMarks struct{ shared, others firstWaves }

// firstWaves holds the first wave after every request for exactly one name, and after every request
// for it or beneath it.
type firstWaves struct{ exactly, beneath int }

func (m *waveMarks) after(p probe) int {
	if p.mode == locking.Shared {
		return m.others.after(p)
	}
	return max(m.others.after(p), m.shared.after(p))
}

func (w firstWaves) after(p probe) int {
	if p.own {
		return w.beneath
	}
	return w.exactly
}

func (m *waveMarks) add(p probe, next int) {
	w := &m.others
	if p.mode == locking.Shared {
		w = &m.shared
	}
	w.beneath = max(w.beneath, next)
	if p.own {
		w.exactly = max(w.exactly, next)
	}
}
