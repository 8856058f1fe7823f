package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxSuggested is the maximum number of names that a field suggests.
const maxSuggested = 200

// suggestions are names that the fields of a form suggest, sorted, and texts of the latest errors.
type suggestions struct{ Jobs, Groups, Resources, Replicas, Errors []string }

// suggestedTerm is a search that the search field suggests.
type suggestedTerm struct{ Value, Name string }

// Terms are the searches that the search field suggests: the jobs, and terms with the other names.
func (s suggestions) Terms() (terms []suggestedTerm) {
	add := func(kind, name, label string) {
		value := name
		if strings.ContainsAny(name, " \t") {
			value = `"` + name + `"`
		}
		if kind != "" {
			value = kind + ":" + value
		}
		terms = append(terms, suggestedTerm{value, label})
	}
	for _, name := range s.Jobs {
		if strings.ContainsAny(name, ": \t") {
			add("job", name, "job")
		} else {
			add("", name, "job")
		}
	}
	for _, name := range s.Resources {
		add("table", name, "table or resource")
	}
	for _, name := range s.Replicas {
		add("replica", name, "replica")
	}
	for _, name := range s.Groups {
		add("group", name, "group")
	}
	if len(terms) == 0 {
		return nil
	}
	for _, reason := range reasons.All() {
		add("reason", string(reason), words.ShortReason(reason))
	}
	for _, text := range s.Errors {
		if term, ok := errorTerm(text); ok {
			terms = append(terms, suggestedTerm{term, "error"})
		}
	}
	return terms
}

// errorTerm returns a term that searches for an error, or false if no term does.
func errorTerm(text string) (term string, ok bool) {
	for _, term := range []string{"error:" + text, `error:"` + text + `"`} {
		s := newRunSearch(term)
		if s.free == "" && slices.Equal(s.terms, []runTerm{{"error", text}}) {
			return term, true
		}
	}
	return "", false
}

// suggester reads the names that the fields of a form suggest.
type suggester struct {
	cluster   *cluster.Reader
	locks     *locks.Reader
	firstJobs *records.Cached[[]string]
}

func newSuggester(c *cluster.Reader, l *locks.Reader) *suggester {
	s := &suggester{cluster: c, locks: l}
	s.firstJobs = records.NewCached(records.CacheLifetime,
		func(ctx context.Context, _ time.Time) ([]string, error) {
			return s.jobNames(ctx, storage.JobFilter{Limit: maxSuggested + 1})
		})
	return s
}

// read returns names near those that the fields have.
func (r *suggester) read(ctx context.Context, snap cluster.Snapshot,
	f runFields) (s suggestions, err error) {
	if s.Jobs, err = r.suggestedJobs(ctx, snap, strings.TrimSuffix(f.Job, "*")); err != nil {
		return s, err
	}
	groups, err := r.cluster.Groups(ctx, snap.Now)
	if err != nil {
		return s, err
	}
	for _, g := range groups {
		s.Groups = append(s.Groups, g.Name)
	}
	resources, err := r.locks.Resources(ctx, snap.Now)
	if err != nil {
		return s, err
	}
	for _, resource := range resources {
		s.Resources = append(s.Resources, resource.String())
	}
	for _, replica := range snap.Replicas {
		s.Replicas = append(s.Replicas, replica.Name)
	}
	s.Errors = snap.ErrorTexts
	s.Groups, s.Resources, s.Replicas = nearest(s.Groups, f.Group),
		nearest(s.Resources, f.Resource), nearest(s.Replicas, f.Replica)
	return s, nil
}

// suggestedJobs returns the names of all jobs. If there are more than maxSuggested, it returns
// those from the typed text on.
func (r *suggester) suggestedJobs(ctx context.Context, snap cluster.Snapshot,
	typed string) ([]string, error) {
	first, err := r.firstJobs.Get(ctx, snap.Now)
	if err != nil || len(first) <= maxSuggested {
		return first, err
	}
	if typed > first[0] {
		near, err := r.jobNames(ctx, storage.JobFilter{After: typed, Limit: maxSuggested})
		if err != nil || len(near) > 0 {
			return near, err
		}
	}
	return first[:maxSuggested], nil
}

// jobNames returns the names of a page of the jobs.
func (r *suggester) jobNames(ctx context.Context, f storage.JobFilter) ([]string, error) {
	list, err := r.cluster.Store.ListJobs(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names, nil
}

// nearest sorts the names and returns maxSuggested of them from the typed text on, or all of them.
func nearest(names []string, typed string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= maxSuggested {
		return names
	}
	at, _ := slices.BinarySearch(names, typed)
	at = min(at, len(names)-maxSuggested)
	return names[at : at+maxSuggested]
}

// maySuggest reports whether the sender of the request may see the names of all jobs.
func maySuggest(ctx context.Context) bool {
	return permission.Require(ctx, permission.View,
		permission.Target{Kind: permission.Everything}) == nil
}

// offeredGroups returns the groups that a filter offers to the sender of the request: all of them,
// or only the chosen one if the sender may not see the names of all jobs.
func offeredGroups(ctx context.Context, groups []storage.Group, chosen string) []storage.Group {
	if maySuggest(ctx) {
		return groups
	}
	for _, g := range groups {
		if g.Name == chosen {
			return []storage.Group{g}
		}
	}
	return nil
}
