package cluster

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

// Snapshot is the state that every page needs beside its own content.
type Snapshot struct {
	Now      time.Time
	Replicas []Replica
	Drift    []storage.JobDrift // jobs whose definitions differ between live replicas
	Facts
}

// IsLive reports whether a replica of the name is live.
func (p Snapshot) IsLive(name string) bool {
	return slices.ContainsFunc(p.Replicas, func(r Replica) bool {
		return r.Name == name && r.Live()
	})
}

// Snapshot queries the time of the store and all replicas, by name. The facts are at most
// factsLifetime old.
func (r *Reader) Snapshot(ctx context.Context) (p Snapshot, err error) {
	if p.Now, err = r.Now(ctx); err != nil {
		return p, err
	}
	found, err := r.replicas(ctx)
	if err != nil {
		return p, err
	}
	p.Replicas = make([]Replica, 0, len(found))
	for _, v := range found {
		p.Replicas = append(p.Replicas, Replica{ReplicaView: v, State: replicaState(v, p.Now)})
	}
	if p.Drift, err = r.driftedJobs(ctx, p.Replicas); err != nil {
		return p, err
	}
	if p.Facts, err = r.known.Get(ctx, p.Now); err != nil {
		return p, err
	}
	r.answered.Store(new(time.Now()))
	return p, nil
}

// AnsweredSince reports whether Snapshot read the state at that time or later, by the local clock.
// Answers to other queries do not count, because a store whose sessions cannot be read may still
// give them.
func (r *Reader) AnsweredSince(t time.Time) bool {
	at := r.answered.Load()
	return at != nil && !at.Before(t)
}

// replicas returns sessions by name, the latest session of a name first.
func (r *Reader) replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	found, err := r.Store.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	views := make([]storage.ReplicaView, 0, len(found))
	for _, v := range found {
		v.StartedAt, v.LastHeartbeat, v.ExpiresAt = v.StartedAt.UTC(), v.LastHeartbeat.UTC(),
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

// BusyReplicas returns the replicas with the runs of each. The numbers of runs and of busy workers
// are those of the listed runs, because the snapshot and the last heartbeat are older.
func (r *Reader) BusyReplicas(ctx context.Context, p Snapshot) ([]Replica, error) {
	running, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Running},
		Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(running, records.OlderFirst)
	replicas := slices.Clone(p.Replicas)
	for i := range replicas {
		replicas[i].Runs = []storage.Record{}
		for _, run := range running {
			if run.Replica == replicas[i].Name && replicas[i].EndedAt == nil {
				replicas[i].Runs = append(replicas[i].Runs, run)
			}
		}
		n := len(replicas[i].Runs)
		replicas[i].Busy = min(n, replicas[i].Workers)
		if n > replicas[i].Running || len(running) < storage.MaxBatch { // there are no other runs
			replicas[i].Running = n
		}
	}
	return replicas, nil
}
