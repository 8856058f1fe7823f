package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// defaultRuns is how many runs a list holds unless limit says otherwise.
const defaultRuns = 100

func (s *Server) runsJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]jobs.Record, error) {
		filter, err := s.reader.runFilter(ctx, r)
		if err != nil {
			return nil, err
		}
		runs, err := s.reader.runs(ctx, filter)
		if err == nil && len(runs) == filter.Limit {
			query := r.URL.Query()
			query.Set("before", runs[len(runs)-1].ID.String())
			w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.Path, query.Encode()))
		}
		return runs, err
	})
}

func (s *Server) runJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (jobs.Record, error) {
		if err := onlyParams(r); err != nil {
			return jobs.Record{}, err
		}
		id, err := uuid.Parse(r.PathValue("id"))
		if err != nil {
			return jobs.Record{}, &badRequest{fmt.Sprintf("id is %q, expected a run's id, a UUID", cut(r.PathValue("id"), 100))}
		}
		run, err := s.reader.store.Run(ctx, id)
		if err != nil {
			return jobs.Record{}, fmt.Errorf("run %s: %w", id, err)
		}
		return plainRecord(run), nil
	})
}

// runs returns runs without output, the youngest first, never nil.
func (r *reader) runs(ctx context.Context, filter jobs.RunFilter) ([]jobs.Record, error) {
	found, err := r.store.Runs(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	runs := make([]jobs.Record, 0, len(found))
	for _, run := range found {
		runs = append(runs, plainRecord(run))
	}
	return runs, nil
}

// runFilter reads the parameters of a list of runs.
func (r *reader) runFilter(ctx context.Context, request *http.Request) (jobs.RunFilter, error) {
	if err := onlyParams(request, "job", "state", "replica", "limit", "before"); err != nil {
		return jobs.RunFilter{}, err
	}
	query := request.URL.Query()
	filter := jobs.RunFilter{Job: query.Get("job"), Replica: query.Get("replica"), Limit: defaultRuns}
	var err error
	if filter.States, err = readStates(query["state"]); err != nil {
		return jobs.RunFilter{}, err
	}
	if query.Has("limit") {
		filter.Limit, err = strconv.Atoi(query.Get("limit"))
		if err != nil || filter.Limit < 1 || filter.Limit > jobs.MaxBatch {
			return jobs.RunFilter{}, &badRequest{fmt.Sprintf("limit is %q, expected a number from 1 to %d",
				cut(query.Get("limit"), 100), jobs.MaxBatch)}
		}
	}
	if query.Has("before") {
		filter.Before, err = r.cursor(ctx, query.Get("before"))
	}
	return filter, err
}

// readStates reads states, repeated or separated by commas.
func readStates(values []string) ([]jobs.State, error) {
	var states []jobs.State
	for _, value := range values {
		for text := range strings.SplitSeq(value, ",") {
			if !slices.Contains(jobs.States(), jobs.State(text)) {
				return nil, &badRequest{fmt.Sprintf("state is %q, expected some of %s", cut(text, 100), stateNames())}
			}
			states = append(states, jobs.State(text))
		}
	}
	return states, nil
}

func stateNames() string {
	var names []string
	for _, state := range jobs.States() {
		names = append(names, string(state))
	}
	return strings.Join(names, ", ")
}

// cursor finds the place in the list that a run's id stands for.
func (r *reader) cursor(ctx context.Context, text string) (*jobs.RunCursor, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, &badRequest{fmt.Sprintf("before is %q, expected a run's id, a UUID", cut(text, 100))}
	}
	run, err := r.store.Run(ctx, id)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return nil, &badRequest{fmt.Sprintf("before is %s, expected the id of a run in the history", id)}
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	return &jobs.RunCursor{CreatedAt: run.CreatedAt, ID: run.ID}, nil
}

// onlyParams refuses parameters other than the allowed, and those given twice:
// a misspelt filter that is passed over would look like an answer. Only state
// may be repeated.
func onlyParams(r *http.Request, allowed ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &badRequest{"The query can't be read: " + oneLine(err.Error(), 100)}
	}
	for name, values := range query {
		switch {
		case len(allowed) == 0:
			return &badRequest{fmt.Sprintf("parameter %q is unknown: this address takes none", cut(name, 100))}
		case !slices.Contains(allowed, name):
			return &badRequest{fmt.Sprintf("parameter %q is unknown, expected some of %s", cut(name, 100), strings.Join(allowed, ", "))}
		case len(values) > 1 && name != "state":
			return &badRequest{fmt.Sprintf("%s is given %d times, expected once", name, len(values))}
		}
	}
	return nil
}

// plainRecord returns a run as every replica shows it: instants in UTC, the
// blocking resource by the name that locks have.
func plainRecord(r jobs.Record) jobs.Record {
	r.Due, r.CreatedAt, r.WaitSince = r.Due.UTC(), r.CreatedAt.UTC(), r.WaitSince.UTC()
	r.StartedAt, r.FinishedAt = inUTC(r.StartedAt), inUTC(r.FinishedAt)
	if r.BlockedBy != nil {
		blocker := *r.BlockedBy
		blocker.Resource = resourceName(blocker.Resource)
		r.BlockedBy = &blocker
	}
	return r
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// resourceName returns the name for people of a resource given by its key;
// anything else it returns as it is.
func resourceName(text string) string {
	if resource, err := locking.ParseKey(text); err == nil {
		return resource.String()
	}
	return text
}
