package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfillParams are the parameters of a list of backfills.
func backfillParams() []string { return []string{"job", "state", "limit", "before", "after"} }

// backfillCursors page from the newest to the oldest.
func backfillCursors() param.Cursors { return param.Cursors{Next: "before", Previous: "after"} }

func backfillCursor(b storage.Backfill) string { return param.EncodeCursor(b.CreatedAt, b.ID) }

func (s backfillPages) backfillsJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.Backfill, error) {
		p, err := param.Read(r, backfillParams()...)
		if err != nil {
			return nil, err
		}
		filter, err := readBackfillFilter(p, defaultRuns)
		if err != nil {
			return nil, err
		}
		list, err := s.options.Store.Backfills(ctx, filter)
		if err == nil && len(list) > 0 {
			full := len(list) == filter.Limit // there may be more
			back := filter.After != nil && filter.Before == nil
			param.SetLinks(w, p.Pager(r.URL.EscapedPath(), backfillCursors(),
				backfillCursor(list[0]), backfillCursor(list[len(list)-1]), back || full,
				filter.Before != nil || back && full))
		}
		return append([]storage.Backfill{}, list...), err // never null
	})
}

func readBackfillFilter(p param.Set, limit int) (f storage.BackfillFilter, err error) {
	if f.Job, err = p.Text("job"); err != nil {
		return f, err
	}
	if states := p.Values["state"]; len(states) > 1 {
		return f, param.Errorf("state is given %d times, expected once", len(states))
	}
	if f.State, err = param.OneOf(p, "state", storage.BackfillStates()); err != nil {
		return f, err
	}
	if f.Limit, err = p.Limit(limit); err != nil {
		return f, err
	}
	if f.Before, err = p.Cursor("before"); err != nil {
		return f, err
	}
	f.After, err = p.Cursor("after")
	return f, err
}

func (s backfillPages) backfillJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (b storage.Backfill, err error) {
		if err := param.Only(r); err != nil {
			return b, err
		}
		id, err := pathID(r, "id", "a backfill's id")
		if err != nil {
			return b, err
		}
		return s.options.Store.Backfill(ctx, id)
	})
}

func (s backfillPages) planJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (plan operations.BackfillPlan, err error) {
		p, err := param.Read(r, "from", "to", "parallel")
		if err != nil {
			return plan, err
		}
		request := operations.BackfillRequest{Job: r.PathValue("name")}
		if request.From, err = p.Time("from"); err != nil {
			return plan, err
		}
		if request.To, err = p.Time("to"); err != nil {
			return plan, err
		}
		if text := p.Get("parallel"); text != "" {
			if request.Parallel, err = strconv.Atoi(text); err != nil {
				return plan, param.Errorf("parallel is %q, expected a number from 1 to %d",
					words.Cut(text, 100), storage.MaxBackfillParallel)
			}
		}
		if s.options.Operations == nil {
			return plan, fmt.Errorf("backfills of a read-only server: %w", storage.ErrNotFound)
		}
		if request.From.IsZero() {
			end := request.To
			if end.IsZero() {
				if end, err = s.options.Store.Now(ctx); err != nil {
					return plan, err
				}
			}
			request.From = end.Add(-24 * time.Hour)
		}
		plan, err = s.options.Operations.PlanBackfill(ctx, request)
		var bad *storage.BadInputError
		if errors.As(err, &bad) {
			err = param.Errorf("%s", bad.Error())
		}
		return plan, err
	})
}

func (s backfillPages) addJSON(w http.ResponseWriter, r *http.Request) {
	var reason, from, to string
	var parallel int64
	fields := map[string]any{"reason": &reason, "from": &from, "to": &to, "parallel": &parallel}
	action(s.base, w, r, fields, func(ctx context.Context,
		ops *operations.Operations) (b storage.Backfill, err error) {
		request := operations.BackfillRequest{Job: r.PathValue("name"), Parallel: int(parallel)}
		if request.From, err = backfillTime("from", from); err != nil {
			return b, err
		}
		if to != "" {
			if request.To, err = backfillTime("to", to); err != nil {
				return b, err
			}
		}
		return ops.Backfill(ctx, s.acting(r, "api", reason), request)
	})
}

// backfillTime parses a time of the body, or returns a *storage.BadInputError.
func backfillTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &storage.BadInputError{Field: field,
			Problem: fmt.Sprintf("found %q, expected a time such as 2026-03-14T02:30:00Z",
				words.Cut(text, 100))}
	}
	return at, nil
}

func (s backfillPages) cancelJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Backfill, error) {
			id, err := pathID(r, "id", "a backfill's id")
			if err != nil {
				return storage.Backfill{}, err
			}
			return ops.CancelBackfill(ctx, s.acting(r, "api", reason), id)
		})
}
