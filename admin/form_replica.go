package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// drainView describes the effect of a drain or of its end.
type drainView struct {
	Replica
	Drain  bool
	Others int // other live replicas that start runs
}

func (s clusterPages) drainPage(w http.ResponseWriter, r *http.Request) {
	s.drainingPage(w, r,
		true)
}
func (s clusterPages) undrainPage(w http.ResponseWriter, r *http.Request) {
	s.drainingPage(w, r, false)
}

func (s clusterPages) drainingPage(w http.ResponseWriter, r *http.Request, drain bool) {
	session, err := pathID(r, "session", "a session's id")
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	asked := "Drain a replica"
	if !drain {
		asked = "End the drain of a replica"
	}
	answerAction(s.base, w, r, actionPage[drainView]{
		template: "drain.html", section: "/replicas", title: asked,
		load: func(ctx context.Context, p cluster.Snapshot) (drainView, error) {
			v, err := s.reader.drainView(ctx, p, session)
			v.Drain = drain
			return v, err
		},
		form: func(f *form, known *drainView) {
			f.Button, f.Bad, f.Back = "Drain replica", drain, "/replicas"
			if !drain {
				f.Button = "End drain"
			}
			f.Moot = known != nil && (!known.Live() || known.Stopping || known.Draining == drain)
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			done := outcome{"/replicas", "The replica is draining and starts no more runs."}
			if !drain {
				done.notice = "The replica starts runs again."
			}
			return done, s.options.Operations.Drain(ctx, a, session, drain)
		},
	})
}

func (r *reader) drainView(ctx context.Context, p cluster.Snapshot,
	session uuid.UUID) (v drainView, err error) {
	replicas, err := r.BusyReplicas(ctx, p)
	if err != nil {
		return v, err
	}
	found := false
	for _, other := range replicas {
		switch {
		case other.Session == session:
			v.Replica, found = other, true
		case other.StartsRuns():
			v.Others++
		}
	}
	if !found {
		return v, fmt.Errorf("session %s: %w", session, storage.ErrNotFound)
	}
	return v, nil
}
