package pages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxUnnoticed is the age up to which a cached copy does not replace the page of a refresh that the
// busy replica could not query. The note about it would move the content for a moment.
const maxUnnoticed = 10 * time.Second

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

// Show writes a page. If the page cannot be queried, it writes the copy that this replica cached
// last, marked as stale. If only the replica is busy and the copy is recent, a refresh gets 204, so
// that the browser keeps its page.
func Show[T any](s *Site, w http.ResponseWriter, r *http.Request, p Page[T]) {
	f, err := s.Frame(r, p.Section, p.Title, p.Live)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if f.JSONPath = p.JSONPath; f.JSONPath == "" {
		f.JSONPath = "/api/v1" + f.Address
	}
	f.Fields, f.topics = p.Fields, p.Topics
	f.SlowedSignIns = s.SlowedSignIns(r)
	content, status, err := QueryOrCached(s, r.Context(), cacheKey(f, r), &f, p.Load)
	var bad *param.Error
	switch {
	case errors.As(err, &bad):
		s.Refuse(w, r, http.StatusBadRequest, bad.Text)
		return
	case errors.Is(err, storage.ErrNotFound):
		s.Refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	if r.Header.Get("HX-Request") != "" && f.Stale && f.Busy && f.Age < maxUnnoticed {
		w.WriteHeader(http.StatusNoContent) // the browser keeps the page that it has
		return
	}
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

// judge adds the status about a snapshot to the frame, or the last status if there is no snapshot:
// a request that has not read the state knows nothing new about the cluster.
func (s *Site) judge(ctx context.Context, f *Frame, snap *cluster.Snapshot) {
	switch {
	case snap == nil || ctx.Err() != nil:
		f.Status = s.Local.LastStatus(ctx, f.SlowedSignIns)
	case f.Silent:
		f.Status = s.Local.Status(ctx, *snap, f.Error, f.SlowedSignIns)
	default:
		f.Status = s.Local.Status(ctx, *snap, "", f.SlowedSignIns)
	}
	f.ServedBy = f.Status.ServedBy
}

// QueryOrCached runs load with a snapshot, or returns the cached result if the query fails. It adds
// the status to the frame. It returns errors of the caller, and notes all others in the frame.
func QueryOrCached[T any](s *Site, ctx context.Context, key string, f *Frame,
	load func(context.Context, cluster.Snapshot) (T, error)) (*T, int, error) {
	begin := time.Now()
	if f.Refresh > 0 && s.Events != nil {
		f.Events = s.Events(ctx, f.topics)
	}
	var snap *cluster.Snapshot // nil until it is read
	var content T
	err := s.query(ctx, func(ctx context.Context) error {
		if f.Events != "" {
			s.Poll(ctx)
			f.Events = s.Events(ctx, f.topics) // the position before all that the page shows
		}
		read, err := s.Cluster.Snapshot(ctx)
		if err != nil {
			return err
		}
		snap, f.Now = &read, read.Now
		content, err = load(ctx, read)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.StoreAnswered()
		cached := content // the caller may complete its own copy for one reader
		s.pageCache.put(key, *snap, &cached)
		s.judge(ctx, f, snap)
		return &content, http.StatusOK, nil
	case errors.As(err, &bad), errors.Is(err, storage.ErrNotFound):
		s.judge(ctx, f, snap)
		return nil, 0, err
	}
	if snap == nil && s.usedSince(begin) {
		err = ErrBusy // other requests had the connections
	}
	s.StoreFailed(ctx, err)
	f.Error = StoreError(err)
	last, known, age := s.pageCache.lookup(key)
	if snap == nil || known != nil {
		f.Now = last.Now
	}
	f.Busy = errors.Is(err, ErrBusy)
	if f.Silent = snap == nil && !f.Busy; f.Silent {
		snap = &last
	}
	s.judge(ctx, f, snap)
	cached, ok := known.(*T)
	if !ok {
		return nil, http.StatusServiceUnavailable, nil
	}
	f.Stale, f.Age = true, age
	f.Can, f.CanAll = permission.Allowed{}, permission.Allowed{} // its state is not current
	copied := *cached
	return &copied, http.StatusServiceUnavailable, nil
}
