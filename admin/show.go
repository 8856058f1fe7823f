package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// page describes how a page is made. Its parameters are parsed before, so load only queries the
// store.
type page[T any] struct {
	template string
	section  string
	title    string
	jsonPath string          // "": the page's address under /api/v1
	live     bool            // refreshes itself
	fields   bool            // has input fields
	topics   []storage.Topic // topics that the page shows; none: all
	load     func(ctx context.Context, p cluster.Snapshot) (T, error)
	// complete adds what only the server knows. It returns the overview for the status, or nil if
	// the snapshot suffices. It may be nil.
	complete func(*T, *Frame) *Overview
}

// view is the data of a template.
type view[T any] struct {
	Frame
	Page *T // nil if nothing is known
}

// show writes a page. If the store does not answer, it writes the copy that this replica cached
// last, marked as stale.
func show[T any](s *Site, w http.ResponseWriter, r *http.Request, p page[T]) {
	f, err := s.frame(r, p.section, p.title, p.live)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if f.JSONPath = p.jsonPath; f.JSONPath == "" {
		f.JSONPath = "/api/v1" + f.Address
	}
	if f.Fields = p.fields; f.Refresh > 0 {
		// the position before the store is queried
		f.Events = s.eventsAddress(r.Context(), p.topics)
	}
	snap, content, status, err := queryOrCached(s, r.Context(), f.Address, &f, p.load)
	var bad *param.Error
	switch {
	case errors.As(err, &bad):
		s.Refuse(w, r, http.StatusBadRequest, bad.Text)
		return
	case errors.Is(err, storage.ErrNotFound):
		s.Refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	f.Now, f.ServedBy = snap.Now, s.local.ServedBy(r.Context())
	judged := &Overview{Now: snap.Now, Replicas: snap.Replicas, ServedBy: f.ServedBy,
		Memcached: s.local.Memcached(), Error: f.Error}
	if content != nil && p.complete != nil {
		if own := p.complete(content, &f); own != nil {
			judged = own
		}
	}
	f.Status = judged.Status(s.storeName)
	s.pages.write(w, s.log, status, p.template, view[T]{f, content})
}

// queryOrCached runs load with a snapshot, or returns the cached result if the store does not
// answer. It returns errors of the caller, and notes errors of the store in the frame.
func queryOrCached[T any](s *Site, ctx context.Context, key string, f *Frame,
	load func(context.Context, cluster.Snapshot) (T, error)) (cluster.Snapshot, *T, int, error) {
	var snap cluster.Snapshot
	var content T
	err := s.queries.run(ctx, func(ctx context.Context) (err error) {
		if snap, err = s.cluster.Snapshot(ctx); err != nil {
			return err
		}
		content, err = load(ctx, snap)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.storeAnswered()
		s.pageCache.put(key, snap, &content)
		return snap, &content, http.StatusOK, nil
	case errors.As(err, &bad), errors.Is(err, storage.ErrNotFound):
		return cluster.Snapshot{}, nil, 0, err
	}
	s.storeFailed(ctx, err)
	f.Error = storeTrouble(err)
	snap, known, age := s.pageCache.lookup(key)
	last, ok := known.(*T)
	if !ok {
		return cluster.Snapshot{}, nil, http.StatusServiceUnavailable, nil
	}
	f.Stale, f.Age, f.Actions = true, age, false // the store accepts no actions now
	copied := *last
	return snap, &copied, http.StatusServiceUnavailable, nil
}
