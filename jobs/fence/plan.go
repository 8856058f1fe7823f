package fence

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// plan is what the pass of one run locks and compares.
type plan struct {
	cluster string
	token   jobs.Token
	names   []name // that the run locks
	rows    []row  // in byte order of their keys
}

// name is a name that the run locks.
type name struct {
	locking.Resource
	shared bool
}

// leaf reports whether there are no names beneath.
func (n name) leaf() bool {
	return n.Kind() == locking.KindTable && strings.Contains(n.Path(), "/")
}

// row is how the row of a name in tokens is locked.
type row struct {
	locking.Resource
	exclusive bool // lock it for update, else for share
	beneath   bool // lock the rows of names beneath for share too
}

// newPlan returns the plan of a run. It returns ErrNoStore for a Run of jobs.NewRun.
func newPlan(run *jobs.Run) (*plan, error) {
	inside := run.Internal(attempt.NewKey())
	if inside.Cluster == uuid.Nil {
		return nil, ErrNoStore
	}
	p := &plan{cluster: inside.Cluster.String(), token: run.Token}
	rows := map[string]row{}
	for _, l := range inside.Locks {
		resource, err := locking.ParseKey(l.Key)
		if err != nil {
			return nil, err
		}
		n := name{resource, l.Shared}
		p.names = append(p.names, n)
		for _, above := range n.Ancestors() {
			if _, known := rows[above.Key()]; !known {
				rows[above.Key()] = row{Resource: above}
			}
		}
		own := rows[n.Key()]
		own.Resource = resource
		own.exclusive = own.exclusive || !n.shared
		own.beneath = own.beneath || n.shared && !n.leaf()
		rows[n.Key()] = own
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		p.rows = append(p.rows, rows[key])
	}
	return p, nil
}
