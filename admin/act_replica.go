package admin

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/operations"
)

// drained tells whether a session starts runs.
type drained struct {
	Session  uuid.UUID `json:"session"`
	Draining bool      `json:"draining"`
}

// removedReplica is a lost replica that is no longer listed.
type removedReplica struct {
	Session uuid.UUID `json:"session"`
}

func (s clusterPages) removeReplicaJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (removedReplica, error) {
			session, err := pathID(r, "session", "a session's id")
			if err != nil {
				return removedReplica{}, err
			}
			return removedReplica{session}, ops.RemoveReplica(ctx, s.acting(r, "api", reason),
				session)
		})
}

func (s clusterPages) drainJSON(w http.ResponseWriter, r *http.Request)   { s.drain(w, r, true) }
func (s clusterPages) undrainJSON(w http.ResponseWriter, r *http.Request) { s.drain(w, r, false) }

func (s clusterPages) drain(w http.ResponseWriter, r *http.Request, draining bool) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (drained, error) {
			session, err := pathID(r, "session", "a session's id")
			if err != nil {
				return drained{}, err
			}
			return drained{session, draining}, ops.Drain(ctx, s.acting(r, "api", reason), session,
				draining)
		})
}
