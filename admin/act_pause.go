package admin

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func (s *Server) pause(w http.ResponseWriter, r *http.Request, target storage.Target) {
	var reason string
	action(s, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Pause, error) {
			p, err := ops.Pause(ctx, s.acting(r, "api", reason), target)
			return plainPause(p), err
		})
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request, target storage.Target) {
	var reason string
	action(s, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Pause, error) {
			p, err := ops.Resume(ctx, s.acting(r, "api", reason), target)
			return plainPause(p), err
		})
}

func (s *Server) pauseGroupJSON(w http.ResponseWriter, r *http.Request) {
	s.pause(w, r, storage.Target{Kind: storage.TargetGroup, Name: r.PathValue("name")})
}

func (s *Server) resumeGroupJSON(w http.ResponseWriter, r *http.Request) {
	s.resume(w, r, storage.Target{Kind: storage.TargetGroup, Name: r.PathValue("name")})
}

func (s *Server) pauseAllJSON(w http.ResponseWriter, r *http.Request) {
	s.pause(w, r, storage.Target{Kind: storage.TargetAll})
}

func (s *Server) resumeAllJSON(w http.ResponseWriter, r *http.Request) {
	s.resume(w, r, storage.Target{Kind: storage.TargetAll})
}

// pausesJSON serves the active pauses.
func (s *Server) pausesJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]storage.Pause, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		return s.reader.activePauses(ctx)
	})
}

// activePauses returns the pauses that have not been resumed, never nil.
func (r *reader) activePauses(ctx context.Context) ([]storage.Pause, error) {
	pauses := []storage.Pause{}
	if r.ops == nil {
		return pauses, nil
	}
	standing, err := r.ops.ActivePauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("pauses: %w", err)
	}
	for _, p := range standing {
		pauses = append(pauses, plainPause(p))
	}
	return pauses, nil
}

func plainPause(p storage.Pause) storage.Pause {
	p.At, p.ResumedAt = p.At.UTC(), records.InUTC(p.ResumedAt)
	return p
}
