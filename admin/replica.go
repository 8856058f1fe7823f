package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (s *Server) replicasJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]jobs.ReplicaView, error) {
		if err := onlyParams(r); err != nil {
			return nil, err
		}
		return s.reader.replicas(ctx)
	})
}

// replicas returns sessions by name, the latest of a name first.
func (r *reader) replicas(ctx context.Context) ([]jobs.ReplicaView, error) {
	found, err := r.store.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	views := make([]jobs.ReplicaView, 0, len(found))
	for _, v := range found {
		v.StartedAt, v.LastBeat, v.ExpiresAt = v.StartedAt.UTC(), v.LastBeat.UTC(), v.ExpiresAt.UTC()
		v.EndedAt = inUTC(v.EndedAt)
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b jobs.ReplicaView) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.StartedAt.Compare(a.StartedAt),
			cmp.Compare(a.Session.String(), b.Session.String()))
	})
	return views, nil
}

// ReplicaState is how a replica does, as its session tells.
type ReplicaState string

// The states of a replica.
const (
	ReplicaBeating ReplicaState = "beating"
	ReplicaLate    ReplicaState = "late"    // no heartbeat for more than half of what its session lives
	ReplicaSilent  ReplicaState = "silent"  // its session ran out, and is not swept yet
	ReplicaStopped ReplicaState = "stopped" // it ended its session
	ReplicaDied    ReplicaState = "died"    // its session ran out and was swept
)

// Replica is a session and how it does.
type Replica struct {
	jobs.ReplicaView
	State ReplicaState `json:"state"`
}

func replicaState(v jobs.ReplicaView, now time.Time) ReplicaState {
	lifetime := v.ExpiresAt.Sub(v.LastBeat)
	switch {
	case v.EndedAt != nil && v.EndedAt.Before(v.ExpiresAt):
		return ReplicaStopped
	case v.EndedAt != nil:
		return ReplicaDied
	case !now.Before(v.ExpiresAt):
		return ReplicaSilent
	case now.Sub(v.LastBeat) > lifetime/2:
		return ReplicaLate
	}
	return ReplicaBeating
}

// living reports whether the replica may still do work.
func (r Replica) living() bool { return r.State == ReplicaBeating || r.State == ReplicaLate }
