package locks

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// The size of one answer. Held and waited-for resources come first. Free ones are paged by name.
const (
	shownBusy      = 60
	shownUnheld    = 500
	maxOpenNodes   = 60 // a tree of up to so many resources is fully unfolded
	summaryBlocked = 1  // number of blocked resources that the summary names
)

// ResourceTree is the resources that jobs name, their locks and their waiters.
type ResourceTree struct {
	Summary  string          `json:"summary"`
	Known    int             `json:"known"`   // resources that match the filter
	Held     int             `json:"held"`    // locks on them
	Waiting  int             `json:"waiting"` // runs that wait for them
	Advisory string          `json:"advisory_error,omitempty"`
	Kinds    []*ResourceNode `json:"tree"`
	// The numbers of resources that this answer leaves out: held or waited for, and free ones after
	// this page.
	MoreBusy int `json:"more_busy"`
	MoreFree int `json:"more_free"`
	// MoreWaiting reports that more runs wait than one query returns. The newest are included.
	MoreWaiting bool `json:"more_waiting"`

	Filter Fields      `json:"-"`
	Pager  param.Pager `json:"-"`
	// addresses of the held resources and of those that runs wait for, both with the filter
	HeldPage, WaitingPage string      `json:"-"`
	Chains                *WaitChains `json:"-"` // nil on later pages
}

// Filter narrows the tree.
type Filter struct {
	// part of a resource's name, or of a job, replica or run that holds it or waits for it
	text  string
	state string            // "", held, waiting or free
	under *locking.Resource // the resource and its descendants
	after string            // the key before the page
}

// ResourceTree queries and builds the tree.
func (r *Reader) ResourceTree(ctx context.Context, now time.Time, f Filter) (ResourceTree, error) {
	set, err := r.Locks(ctx)
	if err != nil {
		return ResourceTree{}, err
	}
	for _, list := range [][]Lock{set.Locks, set.Own} {
		if err := AddUsual(ctx, r, now, list); err != nil {
			return ResourceTree{}, err
		}
	}
	known, err := r.Resources(ctx, now)
	if err != nil {
		return ResourceTree{}, err
	}
	waiting, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting},
		Later: new(false), Limit: storage.MaxBatch})
	if err != nil {
		return ResourceTree{}, err
	}
	slices.SortFunc(waiting, records.OlderFirst)
	g := newLockIndex(known, set, waiting)
	tree := g.tree(f)
	tree.MoreWaiting = len(waiting) == storage.MaxBatch
	if f.after == "" {
		tree.Chains = newWaitChains(now, g, set, waiting, f)
	}
	tree.Summary = g.summary(now, &tree)
	if set.Advisory != nil {
		tree.Advisory = words.OneLine(set.Advisory.Error(), 300)
	}
	return tree, nil
}

func kindWords(k locking.Kind) string {
	return map[locking.Kind]string{
		locking.KindTable: "Tables", locking.KindPath: "Paths",
		locking.KindSlot:  "Resources with slots",
		locking.KindGroup: "Groups with a limit",
		locking.KindMemo:  "Values being computed",
		locking.KindJob:   "Jobs that wait for their own earlier run",
	}[k]
}

// ReadLockFilter parses the parameters of the tree.
func ReadLockFilter(p param.Set) (f Filter, err error) {
	if f.text, err = p.Text("text"); err != nil {
		return f, err
	}
	if f.state, err = param.OneOf(p, "state", []string{"held", "waiting", "free"}); err != nil {
		return f, err
	}
	if len(p.Values["state"]) > 1 {
		return f, param.Errorf("state is given %d times, expected once",
			len(p.Values["state"]))
	}
	if f.under, err = p.Resource("under"); err != nil {
		return f, err
	}
	if f.after, err = p.Text("after"); err != nil || f.after == "" {
		return f, err
	}
	if _, err := locking.ParseKey(f.after); err != nil {
		return f, param.Errorf(
			"after is %q, expected a value from a link to another page", words.Cut(f.after, 100))
	}
	return f, nil
}

// Fields are the submitted fields of the filter.
type Fields struct{ Text, State, Under string }

// Any reports whether a filter is set.
func (f Fields) Any() bool { return f != Fields{} }

// ByName reports whether held resources are also paged by name.
func (f Fields) ByName() bool { return f.State == "held" || f.State == "waiting" }

// LockParams are the parameters of the tree.
func LockParams() []string { return []string{"text", "state", "under", "after"} }

// Link adds the filter and the links of the page.
func (t *ResourceTree) Link(p param.Set, f Filter) {
	t.Filter = Fields{f.text, f.state, p.Get("under")}
	t.Pager = p.TreePager("/locks", t.Pager.NextPage)
	t.HeldPage = p.With("/locks", "state", "held", "after", "")
	t.WaitingPage = p.With("/locks", "state", "waiting", "after", "")
}
