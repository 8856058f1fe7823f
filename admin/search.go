package admin

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// foundOfEach is the number of results of each kind.
	foundOfEach = 20
	// leastRunDigits is the number of digits of an id from which runs are searched.
	leastRunDigits = 4
)

// searchResults are jobs, resources and replicas with the text in their names, and runs whose ids
// begin with it: at most 20 of each.
type searchResults struct {
	Jobs      []foundJob       `json:"jobs"`
	Resources []string         `json:"resources"`
	Replicas  []string         `json:"replicas"`
	Runs      []storage.Record `json:"runs"`
	More      bool             `json:"more"` // there are more jobs, resources, replicas or runs

	text  string
	exact []string // pages of the results that have exactly the searched name or id
}

// foundJob is a job that was found.
type foundJob struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Group       string `json:"group,omitempty"`
}

func newSearchResults(text string) searchResults {
	return searchResults{Jobs: []foundJob{}, Resources: []string{}, Replicas: []string{},
		Runs: []storage.Record{}, text: text}
}

// Text returns the searched text.
func (s searchResults) Text() string { return s.text }

// None reports whether nothing was found.
func (s searchResults) None() bool {
	return len(s.Jobs)+len(s.Resources)+len(s.Replicas)+len(s.Runs) == 0
}

// readSearch parses the searched text.
func readSearch(p param.Set) (string, error) {
	text, err := p.Text("q")
	return strings.TrimSpace(text), err
}

// search looks for a text in names and ids.
func (r *reader) search(ctx context.Context, text string,
	replicas []cluster.Replica) (searchResults, error) {
	s := newSearchResults(text)
	if text == "" {
		return s, nil
	}
	if err := s.searchJobs(ctx, r); err != nil {
		return s, err
	}
	if err := s.searchResources(ctx, r); err != nil {
		return s, err
	}
	s.searchReplicas(replicas)
	return s, s.searchRuns(ctx, r)
}

// searchJobs looks in the index of jobs, because the search field asks while its user types. The
// store is asked only if the index has no such job: the job may be new.
func (s *searchResults) searchJobs(ctx context.Context, r *reader) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	index, err := r.lists.jobIndex(ctx, now)
	if err != nil {
		return err
	}
	filter := storage.JobFilter{Text: s.text, Limit: foundOfEach + 1}
	narrows := narrowing(filter)
	for i := range index.states {
		if v := &index.states[i]; narrows(v) {
			s.addJob(foundJob{v.Job, v.Description, v.Group})
		}
	}
	if len(s.Jobs) > 0 {
		return nil
	}
	list, err := r.Store.ListJobs(ctx, filter)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	for _, v := range list {
		s.addJob(foundJob{v.Name, v.Description, v.Group})
	}
	return nil
}

// addJob adds a job to the results if there is room for it. The searched job is noted in any case.
func (s *searchResults) addJob(job foundJob) {
	if job.Name == s.text {
		s.exact = append(s.exact, param.JobPath(job.Name))
	}
	if len(s.Jobs) == foundOfEach {
		s.More = true
		return
	}
	s.Jobs = append(s.Jobs, job)
}

func (s *searchResults) searchResources(ctx context.Context, r *reader) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	known, err := r.lock.Resources(ctx, now)
	if err != nil {
		return err
	}
	lower := strings.ToLower(s.text)
	for _, resource := range known {
		name := resource.String()
		if !strings.Contains(strings.ToLower(name), lower) {
			continue
		}
		if name == s.text {
			s.exact = append(s.exact, locks.TimelinePath(name))
		}
		if len(s.Resources) == foundOfEach {
			s.More = true
			continue
		}
		s.Resources = append(s.Resources, name)
	}
	return nil
}

func (s *searchResults) searchReplicas(replicas []cluster.Replica) {
	lower := strings.ToLower(s.text)
	for _, replica := range replicas {
		switch {
		case lower == "", !strings.Contains(strings.ToLower(replica.Name), lower):
		case len(s.Replicas) == foundOfEach:
			s.More = true
		default:
			s.Replicas = append(s.Replicas, replica.Name)
		}
	}
}

func (s *searchResults) searchRuns(ctx context.Context, r *reader) error {
	first, last, ok := idsFrom(s.text)
	if !ok {
		return nil
	}
	found, err := r.Store.RunsBetween(ctx, first, last, foundOfEach+1)
	if err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	if len(found) > foundOfEach {
		found, s.More = found[:foundOfEach], true
	}
	if first == last && len(found) == 1 {
		s.exact = append(s.exact, param.RunPath(first))
	}
	s.Runs = records.PlainAll(found)
	return nil
}

// idsFrom returns the first and the last id that begin with a text, or false if it is no beginning
// of an id, or too short.
func idsFrom(text string) (first, last uuid.UUID, ok bool) {
	const digits = 2 * len(first)
	text = strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(text) < leastRunDigits || len(text) > digits {
		return first, last, false
	}
	parse := func(filler string) (id uuid.UUID, ok bool) {
		bytesOf, err := hex.DecodeString(text + strings.Repeat(filler, digits-len(text)))
		return uuid.UUID(append(bytesOf, make([]byte, len(id))...)[:len(id)]), err == nil
	}
	if first, ok = parse("0"); !ok {
		return first, last, false
	}
	last, ok = parse("f")
	return first, last, ok
}

func (s clusterPages) searchJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (searchResults, error) {
		p, err := param.Read(r, "q")
		if err != nil {
			return searchResults{}, err
		}
		text, err := readSearch(p)
		if err != nil {
			return searchResults{}, err
		}
		snap, err := s.reader.Snapshot(ctx)
		if err != nil {
			return searchResults{}, err
		}
		return s.reader.search(ctx, text, snap.Replicas)
	})
}

// searchPage shows the results of a search. If the text is exactly the name or the id of one
// result, it redirects to the page of that result.
func (s clusterPages) searchPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "q", "refresh")
	var text string
	if err == nil {
		text, err = readSearch(p)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	var results searchResults
	failed := s.Queries.Run(r.Context(), func(ctx context.Context) (err error) {
		results, err = s.reader.search(ctx, text, nil)
		return err
	})
	if failed == nil && len(results.exact) == 1 {
		http.Redirect(w, r, results.exact[0], http.StatusSeeOther)
		return
	}
	pages.Show(s.Site, w, r, pages.Page[searchResults]{
		Template: "search.html", Section: "/search", Title: "Search", Fields: true,
		JSONPath: p.With("/api/v1/search"),
		Load: func(_ context.Context, snap cluster.Snapshot) (searchResults, error) {
			results := results
			results.searchReplicas(snap.Replicas)
			return results, failed
		},
	})
}
