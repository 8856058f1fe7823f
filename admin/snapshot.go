package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// snapshot is the state that every page needs beside its own content.
type snapshot struct {
	now      time.Time
	replicas []Replica
}

func (r *clusterReader) snapshot(ctx context.Context) (p snapshot, err error) {
	if p.now, err = r.Now(ctx); err != nil {
		return p, err
	}
	found, err := r.replicas(ctx)
	if err != nil {
		return p, err
	}
	p.replicas = make([]Replica, 0, len(found))
	for _, v := range found {
		p.replicas = append(p.replicas, Replica{ReplicaView: v, State: replicaState(v, p.now)})
	}
	return p, nil
}

// replicas returns sessions by name, the latest session of a name first.
func (r *clusterReader) replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	found, err := r.Store.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	views := make([]storage.ReplicaView, 0, len(found))
	for _, v := range found {
		v.StartedAt, v.LastBeat, v.ExpiresAt = v.StartedAt.UTC(), v.LastBeat.UTC(),
			v.ExpiresAt.UTC()
		v.EndedAt = records.InUTC(v.EndedAt)
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b storage.ReplicaView) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.StartedAt.Compare(a.StartedAt),
			cmp.Compare(a.Session.String(), b.Session.String()))
	})
	return views, nil
}

// busyReplicas returns the replicas with the runs of each.
func (r *clusterReader) busyReplicas(ctx context.Context, p snapshot) ([]Replica, error) {
	running, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Running},
		Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(running, records.OlderFirst)
	replicas := slices.Clone(p.replicas)
	for i := range replicas {
		replicas[i].Runs = []storage.Record{}
		for _, run := range running {
			if run.Replica == replicas[i].Name && replicas[i].EndedAt == nil {
				replicas[i].Runs = append(replicas[i].Runs, run)
			}
		}
	}
	return replicas, nil
}
