package admin

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func (s pausePages) pause(w http.ResponseWriter, r *http.Request, target storage.Target) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Pause, error) {
			p, err := ops.Pause(ctx, s.acting(r, "api", reason), target)
			return cluster.PlainPause(p), err
		})
}

func (s pausePages) resume(w http.ResponseWriter, r *http.Request, target storage.Target) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Pause, error) {
			p, err := ops.Resume(ctx, s.acting(r, "api", reason), target)
			return cluster.PlainPause(p), err
		})
}

func (s pausePages) pauseGroupJSON(w http.ResponseWriter, r *http.Request) {
	s.pause(w, r, storage.Target{Kind: storage.TargetGroup, Name: r.PathValue("name")})
}

func (s pausePages) resumeGroupJSON(w http.ResponseWriter, r *http.Request) {
	s.resume(w, r, storage.Target{Kind: storage.TargetGroup, Name: r.PathValue("name")})
}

func (s pausePages) pauseAllJSON(w http.ResponseWriter, r *http.Request) {
	s.pause(w, r, storage.Target{Kind: storage.TargetAll})
}

func (s pausePages) resumeAllJSON(w http.ResponseWriter, r *http.Request) {
	s.resume(w, r, storage.Target{Kind: storage.TargetAll})
}

// pausesJSON serves the active pauses.
func (s pausePages) pausesJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.Pause, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		return s.reader.ActivePauses(ctx)
	})
}

func (s pausePages) pauseJobJSON(w http.ResponseWriter, r *http.Request) {
	s.pause(w, r, storage.Target{Kind: storage.TargetJob, Name: r.PathValue("name")})
}

func (s pausePages) resumeJobJSON(w http.ResponseWriter, r *http.Request) {
	s.resume(w, r, storage.Target{Kind: storage.TargetJob, Name: r.PathValue("name")})
}
