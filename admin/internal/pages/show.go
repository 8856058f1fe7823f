package pages

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Page describes how a page is made. Its parameters are parsed before, so Load only queries the
// store.
type Page[T any] struct {
	Template string
	Section  string
	Title    string
	JSONPath string          // "": the page's address under /api/v1
	Live     bool            // refreshes itself
	Fields   bool            // has input fields
	Topics   []storage.Topic // topics that the page shows; none: all
	Load     func(ctx context.Context, p cluster.Snapshot) (T, error)
	// Complete adds what only the server knows. It may be nil.
	Complete func(*T, *Frame)
}

// view is the data of a template.
type view[T any] struct {
	Frame
	Page *T // nil if nothing is known
}

// Show writes a page. If the store does not answer, it writes the copy that this replica cached
// last, marked as stale.
func Show[T any](s *Site, w http.ResponseWriter, r *http.Request, p Page[T]) {
	f, err := s.Frame(r, p.Section, p.Title, p.Live)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if f.JSONPath = p.JSONPath; f.JSONPath == "" {
		f.JSONPath = "/api/v1" + f.Address
	}
	if f.Fields = p.Fields; f.Refresh > 0 && s.Events != nil {
		// the position before the store is queried
		f.Events = s.Events(r.Context(), p.Topics)
	}
	snap, content, status, err := QueryOrCached(s, r.Context(), cacheKey(f, r), &f, p.Load)
	var bad *param.Error
	switch {
	case errors.As(err, &bad):
		s.Refuse(w, r, http.StatusBadRequest, bad.Text)
		return
	case errors.Is(err, storage.ErrNotFound):
		s.Refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	f.SlowedSignIns = s.SlowedSignIns(r)
	s.Judge(r.Context(), &f, snap)
	if content != nil && p.Complete != nil {
		p.Complete(content, &f)
	}
	s.Write(w, status, p.Template, view[T]{f, content})
}

// cacheKey returns the key of a page in the cache. A page that keeps entries is a page of its own.
func cacheKey(f Frame, r *http.Request) string {
	query := r.URL.Query()
	return f.Address + query.Get(param.Newest) + query.Get(param.Lanes)
}

// Judge adds the status about a snapshot to the frame.
func (s *Site) Judge(ctx context.Context, f *Frame, snap cluster.Snapshot) {
	f.Now = snap.Now
	f.Status = s.Local.Status(ctx, snap, f.Error, f.SlowedSignIns)
	f.ServedBy = f.Status.ServedBy
}

// QueryOrCached runs load with a snapshot, or returns the cached result if the store does not
// answer. It returns errors of the caller, and notes errors of the store in the frame.
func QueryOrCached[T any](s *Site, ctx context.Context, key string, f *Frame,
	load func(context.Context, cluster.Snapshot) (T, error)) (cluster.Snapshot, *T, int, error) {
	var snap cluster.Snapshot
	var content T
	err := s.Queries.Run(ctx, func(ctx context.Context) (err error) {
		if snap, err = s.Cluster.Snapshot(ctx); err != nil {
			return err
		}
		content, err = load(ctx, snap)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.StoreAnswered()
		cached := content // the caller may complete its own copy for one reader
		s.pageCache.put(key, snap, &cached)
		return snap, &content, http.StatusOK, nil
	case errors.As(err, &bad), errors.Is(err, storage.ErrNotFound):
		return cluster.Snapshot{}, nil, 0, err
	}
	s.StoreFailed(ctx, err)
	f.Error = StoreError(err)
	snap, known, age := s.pageCache.lookup(key)
	last, ok := known.(*T)
	if !ok {
		return cluster.Snapshot{}, nil, http.StatusServiceUnavailable, nil
	}
	f.Stale, f.Age = true, age
	f.Can, f.CanAll = permission.Allowed{}, permission.Allowed{} // the store accepts no actions now
	copied := *last
	return snap, &copied, http.StatusServiceUnavailable, nil
}
