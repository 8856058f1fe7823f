package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// removalView describes the effect of the removal of a lost replica from the list.
type removalView struct {
	Replica
	Sessions int // lost ones of the replica, which are removed together
}

// Removable reports whether the session is that of a lost replica.
func (v *removalView) Removable() bool { return v.State == cluster.ReplicaLost }

func (s clusterPages) removeReplicaPage(w http.ResponseWriter, r *http.Request) {
	session, err := pathID(r, "session", "a session's id")
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[removalView]{
		template: "removereplica.html", section: "/replicas", title: "Remove a lost replica",
		load: func(_ context.Context, p cluster.Snapshot) (v removalView, err error) {
			for _, r := range p.Replicas {
				if r.Session == session {
					v.Replica = r
				}
			}
			if v.Name == "" {
				return v, fmt.Errorf("session %s: %w", session, storage.ErrNotFound)
			}
			for _, r := range p.Replicas {
				if r.Name == v.Name && r.State == cluster.ReplicaLost {
					v.Sessions++
				}
			}
			return v, nil
		},
		form: func(f *form, known *removalView) {
			f.Button, f.Back = "Remove replica", "/replicas"
			f.Moot = known != nil && !known.Removable()
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			done := outcome{"/replicas", "The lost replica was removed from the list."}
			return done, s.options.Operations.RemoveReplica(ctx, a, session)
		},
	})
}
