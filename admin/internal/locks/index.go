package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// index is all known resources with their locks and waiters, before paging.
type index struct {
	known   map[locking.Resource]bool
	own     map[locking.Resource][]Lock
	waiting map[locking.Resource][]storage.Record
	beneath map[locking.Resource]int // number of locks
	sums    map[locking.Resource]*ResourceNode
}

func (g *index) busy(r locking.Resource) bool {
	return len(g.own[r]) > 0 || len(g.waiting[r]) > 0
}

// tree selects the resources of the answer and builds their tree.
func (g *index) tree(f Filter) ResourceTree {
	var t ResourceTree
	var busy, free []locking.Resource
	for resource := range g.known {
		if !g.passes(f, resource) {
			continue
		}
		g.count(resource)
		t.Known, t.Held, t.Waiting = t.Known+1, t.Held+len(g.own[resource]),
			t.Waiting+len(g.waiting[resource])
		if g.busy(resource) {
			busy = append(busy, resource)
		} else {
			free = append(free, resource)
		}
	}
	shown := g.onPage(f, busy, free, &t)
	t.Kinds = append([]*ResourceNode{}, g.buildTrees(shown)...) // never null
	return t
}

// onPage returns the resources of a page: the most urgent busy ones, and free ones by name. A
// filter for held or waited-for resources pages them by name.
func (g *index) onPage(f Filter, busy, free []locking.Resource,
	t *ResourceTree) []locking.Resource {
	page, limit, more := free, shownUnheld, &t.MoreFree
	if f.state == "held" || f.state == "waiting" {
		page, busy, limit, more = busy, nil, shownBusy, &t.MoreBusy
	}
	slices.SortFunc(busy, g.byUrgency)
	slices.SortFunc(page, byKind)
	if f.after != "" {
		busy = nil // they are on the first page
		page = slices.DeleteFunc(page,
			func(r locking.Resource) bool { return !isAfter(r, f.after) })
	}
	t.MoreBusy = max(0, len(busy)-shownBusy)
	busy = busy[:min(len(busy), shownBusy)]
	if *more = max(0, len(page)-limit); *more > 0 {
		page = page[:limit]
		t.Pager.NextPage = page[limit-1].Key()
	}
	return slices.Concat(busy, page)
}

func (g *index) passes(f Filter, resource locking.Resource) bool {
	if f.under != nil && resource != *f.under && !slices.Contains(resource.Ancestors(), *f.under) {
		return false
	}
	switch f.state {
	case "held":
		if len(g.own[resource]) == 0 {
			return false
		}
	case "waiting":
		if len(g.waiting[resource]) == 0 {
			return false
		}
	case "free":
		if g.busy(resource) {
			return false
		}
	}
	return f.text == "" || g.matchesText(resource, strings.ToLower(f.text))
}

func (g *index) matchesText(resource locking.Resource, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(resource.String()) ||
		slices.ContainsFunc(g.own[resource], func(l Lock) bool {
			return has(l.Holder.Job) || has(l.Holder.Replica) || has(l.Holder.Run)
		}) ||
		slices.ContainsFunc(g.waiting[resource], func(r storage.Record) bool {
			return has(r.Job) || has(r.Replica) || has(r.ID.String())
		})
}

// count adds a resource to the sums of its ancestors.
func (g *index) count(resource locking.Resource) {
	for _, each := range append(resource.Ancestors(), resource) {
		sum := g.sums[each]
		if sum == nil {
			sum = &ResourceNode{}
			g.sums[each] = sum
		}
		sum.Resources++
		sum.Held += len(g.own[resource])
		sum.Waits += len(g.waiting[resource])
	}
}

// byUrgency sorts by the number of waiting runs, then by the time held.
func (g *index) byUrgency(a, b locking.Resource) int {
	return cmp.Or(cmp.Compare(len(g.waiting[b]), len(g.waiting[a])),
		cmp.Compare(g.heldSince(a), g.heldSince(b)), byKind(a, b))
}

func (g *index) heldSince(r locking.Resource) int64 {
	oldest := int64(1) << 62
	for _, lock := range g.own[r] {
		oldest = min(oldest, lock.Since.UnixMicro())
	}
	return oldest
}

// buildTrees arranges resources in trees, one per kind.
func (g *index) buildTrees(shown []locking.Resource) []*ResourceNode {
	roots := make(map[locking.Kind]*ResourceNode)
	nodes := make(map[locking.Resource]*ResourceNode)
	for _, resource := range shown {
		root := roots[resource.Kind()]
		if root == nil {
			root = &ResourceNode{Name: kindWords(resource.Kind()), Kind: resource.Kind(),
				State: HeldNot}
			roots[resource.Kind()] = root
		}
		parent := root
		for _, each := range append(resource.Ancestors(), resource) {
			node := nodes[each]
			if node == nil {
				node = g.node(each)
				nodes[each] = node
				parent.Beneath = append(parent.Beneath, node)
			}
			if each == resource {
				node.parts++
			}
			parent = node
		}
	}
	var trees []*ResourceNode
	for _, kind := range kinds() {
		if root := roots[kind]; root != nil {
			root.arrange(len(shown) <= maxOpenNodes)
			trees = append(trees, root)
		}
	}
	for resource, sum := range g.sums { // the sums of a kind are those of its top-level resources
		if root := roots[resource.Kind()]; root != nil && len(resource.Ancestors()) == 0 {
			root.Resources, root.Held, root.Waits = root.Resources+sum.Resources,
				root.Held+sum.Held, root.Waits+sum.Waits
		}
	}
	return trees
}

func (g *index) node(resource locking.Resource) *ResourceNode {
	state := resourceState(resource, g.own, g.beneath[resource])
	path := resource.Path()
	node := *g.sums[resource]
	node.Name, node.Resource, node.Kind = path[strings.LastIndex(path, "/")+1:], resource.String(),
		resource.Kind()
	node.path = path
	node.State, node.Locks, node.Waiting = state.State, state.Locks, g.waiting[resource]
	return &node
}

// summary describes the blocked resources and the number of locks.
func (g *index) summary(now time.Time, t *ResourceTree) string {
	var blocked []locking.Resource
	waits := 0
	for resource, runs := range g.waiting {
		blocked, waits = append(blocked, resource), waits+len(runs)
	}
	slices.SortFunc(blocked, g.byUrgency)
	var parts []string
	for _, resource := range blocked[:min(len(blocked), summaryBlocked)] {
		parts = append(parts, g.blockedWords(now, resource))
	}
	if more := len(blocked) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("Runs wait for %s.",
			words.Plural(more, "more resource", "more resources")))
	}
	held := 0
	for _, locks := range g.own {
		held += len(locks)
	}
	switch {
	case len(g.known) == 0:
		return "No tables yet. Tables of jobs appear here."
	case held == 0:
		parts = append(parts, "No locks are held.")
	case waits == 0:
		parts = append(parts, fmt.Sprintf("%s held, no runs wait.",
			words.Title(words.Plural(held, "lock is", "locks are"))))
	}
	return strings.Join(parts, " ")
}

// blockedWords describes the holder and the waiters of a resource.
func (g *index) blockedWords(now time.Time, resource locking.Resource) string {
	runs := g.waiting[resource]
	name := words.Cut(resource.String(), 100)
	if resource.Kind() == locking.KindJob {
		name = "The earlier run of " + words.Cut(resource.Path(), 100)
	}
	locks := resourceState(resource, g.own, 0).Locks
	if len(locks) == 0 {
		if resource.Kind() == locking.KindJob {
			name += " has ended."
		} else {
			name += " is free again."
		}
		return fmt.Sprintf("%s %s will retry.", name,
			words.Title(words.Plural(len(runs), "waiting run", "waiting runs")))
	}
	place, held := words.Cut(locks[0].Holder.Replica, 100), words.Span(now.Sub(locks[0].Since))
	if usual := locks[0].Usual(now); usual != "" {
		held += ", usually " + usual
	}
	oldest := words.Span(now.Sub(records.Since(runs[0])))
	wait := fmt.Sprintf("%s wait for it, the oldest for %s.",
		words.Title(words.Plural(len(runs), "run", "runs")), oldest)
	if len(runs) == 1 {
		wait = fmt.Sprintf("%s has waited for it for %s.", words.Cut(runs[0].Job, 100), oldest)
	}
	if resource.Kind() == locking.KindJob {
		return fmt.Sprintf("%s has run on %s for %s. %s", name, place, held, wait)
	}
	by := cmp.Or(words.Cut(locks[0].Holder.Job, 100), "A program")
	if more := len(locks) - 1; more > 0 {
		held += fmt.Sprintf(", together with %s", words.Plural(more, "other run", "other runs"))
	}
	return fmt.Sprintf("%s on %s has held %s for %s. %s", by, place, name, held, wait)
}

func newLockIndex(named []locking.Resource, set Set, waiting []storage.Record) *index {
	g := &index{
		known: map[locking.Resource]bool{}, own: map[locking.Resource][]Lock{},
		waiting: map[locking.Resource][]storage.Record{},
		beneath: map[locking.Resource]int{}, sums: map[locking.Resource]*ResourceNode{},
	}
	for _, resource := range named {
		g.known[resource] = true
	}
	for _, run := range waiting {
		if resource, ok := records.BlockedOn(run); ok {
			g.known[resource] = true
			g.waiting[resource] = append(g.waiting[resource], run)
		}
	}
	for _, lock := range slices.Concat(set.Locks, set.Own) {
		if lock.resource.Kind() == locking.KindJob && !g.known[lock.resource] {
			continue // every run locks its job's name; show it only if another run waits for it
		}
		g.known[lock.resource] = true
		g.own[lock.resource] = append(g.own[lock.resource], lock)
		for _, above := range lock.resource.Ancestors() {
			g.beneath[above]++
		}
	}
	return g
}

func kinds() []locking.Kind {
	return []locking.Kind{locking.KindTable, locking.KindPath, locking.KindSlot, locking.KindGroup,
		locking.KindMemo, locking.KindJob}
}

func byKind(a, b locking.Resource) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds(), a.Kind()), slices.Index(kinds(), b.Kind())),
		cmp.Compare(a.Path(), b.Path()))
}

// isAfter reports whether a resource sorts after the one with the key.
func isAfter(r locking.Resource, key string) bool {
	last, err := locking.ParseKey(key)
	return err == nil && byKind(r, last) > 0
}
