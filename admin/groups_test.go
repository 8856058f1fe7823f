package admin

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// groupCounter counts the queries of the groups of jobs.
type groupCounter struct {
	*history
	queries int
}

func (g *groupCounter) Groups(ctx context.Context) ([]storage.Group, error) {
	g.queries++
	return g.history.Groups(ctx)
}

// TestGroupsAreCached checks that pages share one query of the groups, which reads all jobs.
func TestGroupsAreCached(t *testing.T) {
	o := tenThousand()
	store := &groupCounter{history: o.Store.(*history)}
	o.Store = store
	handler := newServer(t, o).Handler()
	for _, path := range []string{"/jobs", "/grid", "/jobs?group=region-03"} {
		get(t, handler, path)
	}
	if store.queries != 1 {
		t.Errorf("three pages made %d queries of the groups, want 1", store.queries)
	}
}
