package admin

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// authorized wraps a route in the check of its permission. It looks up the target of the request at
// most once, and only for senders who do not have a permission on everything.
func (s *Server) authorized(n need, next http.HandlerFunc) http.HandlerFunc {
	if n.permission == "" {
		return next
	}
	base := s.base()
	return func(w http.ResponseWriter, r *http.Request) {
		if n.target == nil {
			err := permission.Require(r.Context(), n.permission,
				permission.Target{Kind: permission.Everything})
			if err != nil {
				base.refuseUnauthorized(w, r, err)
				return
			}
			next(w, r)
			return
		}
		once := sync.OnceValues(func() (t permission.Target, err error) {
			err = base.Queries.Run(r.Context(), func(ctx context.Context) (err error) {
				t, err = n.target(base, ctx, r)
				return err
			})
			return t, err
		})
		target := func(context.Context) (permission.Target, error) { return once() }
		if err := permission.RequireOn(r.Context(), n.permission, target); err != nil {
			base.refuseUnauthorized(w, r, err)
			return
		}
		next(w, r.WithContext(pages.WithTarget(r.Context(), target)))
	}
}

// refuseUnauthorized answers a request whose sender lacks a permission, or could not be judged.
func (s base) refuseUnauthorized(w http.ResponseWriter, r *http.Request, err error) {
	var denied *permission.DeniedError
	var bad *param.Error
	switch {
	case errors.As(err, &denied):
		s.Guard.Denied(r, denied)
		s.Refuse(w, r, http.StatusForbidden, denied.Error())
	case errors.As(err, &bad):
		s.Refuse(w, r, http.StatusBadRequest, bad.Error())
	case errors.Is(err, storage.ErrNotFound):
		s.Refuse(w, r, http.StatusNotFound, err.Error())
	default:
		s.StoreFailed(r.Context(), err)
		s.Refuse(w, r, http.StatusServiceUnavailable, pages.StoreError(err))
	}
}

func something(base, context.Context, *http.Request) (permission.Target, error) {
	return permission.Target{Kind: permission.Something}, nil
}

func jobOf(s base, ctx context.Context, r *http.Request) (permission.Target, error) {
	return operations.JobTarget(ctx, s.options.Store, r.PathValue("name"))
}

func groupOf(_ base, _ context.Context, r *http.Request) (permission.Target, error) {
	return permission.Target{Kind: permission.Group, Name: r.PathValue("name")}, nil
}

func runOf(s base, ctx context.Context, r *http.Request) (permission.Target, error) {
	id, err := runID(r)
	if err != nil {
		return permission.Target{}, err
	}
	return operations.RunTarget(ctx, s.options.Store, id)
}

func backfillOf(s base, ctx context.Context, r *http.Request) (permission.Target, error) {
	id, err := pathID(r, "id", "a backfill's id")
	if err != nil {
		return permission.Target{}, err
	}
	return operations.BackfillTarget(ctx, s.options.Store, id)
}

func resourceOf(_ base, _ context.Context, r *http.Request) (permission.Target, error) {
	return permission.Target{Kind: permission.Resource, Name: r.URL.Query().Get("resource")}, nil
}

// filteredJobs is the group of the filter, or everything.
func filteredJobs(_ base, _ context.Context, r *http.Request) (permission.Target, error) {
	if group := r.URL.Query().Get("group"); group != "" {
		return permission.Target{Kind: permission.Group, Name: group}, nil
	}
	return permission.Target{Kind: permission.Everything}, nil
}

// filteredRuns is the job of the filter, or of its backfill, or the group of the filter, or
// everything. A prefix of jobs is no target.
func filteredRuns(s base, ctx context.Context, r *http.Request) (permission.Target, error) {
	query := r.URL.Query()
	var filter storage.RunFilter
	if filter.SetJobs(query.Get("job")); filter.Job != "" {
		return operations.JobTarget(ctx, s.options.Store, filter.Job)
	}
	if text := query.Get("backfill"); text != "" {
		id, err := readBackfillID(text)
		if err != nil {
			return permission.Target{}, err
		}
		return operations.BackfillTarget(ctx, s.options.Store, id)
	}
	return filteredJobs(s, ctx, r)
}

// filteredBackfills is the job of the filter, or everything.
func filteredBackfills(s base, ctx context.Context, r *http.Request) (permission.Target, error) {
	if job := r.URL.Query().Get("job"); job != "" {
		return operations.JobTarget(ctx, s.options.Store, job)
	}
	return permission.Target{Kind: permission.Everything}, nil
}
