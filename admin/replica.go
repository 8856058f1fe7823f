package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// shownOfReplica is the number of runs per replica that the page lists.
const shownOfReplica = 20

func (s *Server) replicasJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]Replica, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		p, err := s.reader.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return s.reader.busyReplicas(ctx, p)
	})
}

// replicasView is the page of replicas.
type replicasView struct {
	Replicas  []Replica
	Drift     []storage.JobDrift // jobs whose definitions differ between live replicas
	Memcached *MemcachedView
	ServedBy  ServedBy
}

// shownDrift is the number of jobs with drift that the page lists.
const shownDrift = 50

// DriftShown returns the jobs with drift that the page lists.
func (v *replicasView) DriftShown() []storage.JobDrift {
	return v.Drift[:min(len(v.Drift), shownDrift)]
}

// DriftMore returns the number of jobs with drift that the page does not list.
func (v *replicasView) DriftMore() int { return len(v.Drift) - len(v.DriftShown()) }

// OddVersion returns a CSS class for a version that only a minority of live replicas has.
func (v *replicasView) OddVersion(version string) string {
	return v.odd(version, func(r Replica) string { return r.Version })
}

// OddJobs returns a CSS class for a cron table that only a minority of live replicas has.
func (v *replicasView) OddJobs(hash string) string {
	return v.odd(hash, func(r Replica) string { return r.ConfigHash })
}

// OddServers returns a CSS class for a server list that only a minority of live replicas has.
func (v *replicasView) OddServers(list string) string {
	return v.odd(list, func(r Replica) string { return r.LockServers })
}

// odd returns a CSS class for a value that is not the most frequent one. If two are equally
// frequent, both are odd.
func (v *replicasView) odd(value string, of func(Replica) string) string {
	counts := make(map[string]int)
	for _, r := range v.Replicas {
		if r.live() && of(r) != "" {
			counts[of(r)]++
		}
	}
	for other, n := range counts {
		if other != value && n >= counts[value] {
			return "odd"
		}
	}
	return ""
}

func (s *Server) replicasPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[replicasView]{
		template: "replicas.html", section: "/replicas", title: "Replicas", live: true,
		topics: []storage.Topic{storage.TopicReplicas, storage.TopicRuns, storage.TopicJobs},
		load: func(ctx context.Context, p snapshot) (v replicasView, err error) {
			if v.Replicas, err = s.reader.busyReplicas(ctx, p); err != nil {
				return v, err
			}
			v.Drift, err = s.reader.driftedJobs(ctx, p.replicas)
			return v, err
		},
		complete: func(v *replicasView, f *Frame) *Overview {
			v.Memcached, v.ServedBy = s.memcached(), f.ServedBy
			return &Overview{Now: f.Now, Replicas: v.Replicas, Drift: v.Drift, ServedBy: f.ServedBy,
				Memcached: v.Memcached, Error: f.Error}
		},
	})
}

// busyReplicas returns the replicas with the runs of each.
func (r *reader) busyReplicas(ctx context.Context, p snapshot) ([]Replica, error) {
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

// replicas returns sessions by name, the latest session of a name first.
func (r *reader) replicas(ctx context.Context) ([]storage.ReplicaView, error) {
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

// ReplicaState is the state of a replica, derived from its session.
type ReplicaState string

// The states of a replica.
const (
	ReplicaLive ReplicaState = "live"
	// the last heartbeat is older than half of the session's lifetime
	ReplicaLate    ReplicaState = "late"
	ReplicaExpired ReplicaState = "expired" // its session has expired, and has not been swept yet
	ReplicaStopped ReplicaState = "stopped" // it ended its session
	ReplicaLost    ReplicaState = "lost"    // its session expired and was swept
)

// Replica is a session and its state.
type Replica struct {
	storage.ReplicaView
	State ReplicaState `json:"state"`
	// running runs, oldest first; only in lists of replicas
	Runs []storage.Record `json:"runs,omitempty"`
}

// RunsShown returns the runs that the page lists.
func (r Replica) RunsShown() []storage.Record { return r.Runs[:min(len(r.Runs), shownOfReplica)] }

// RunsMore returns the number of runs that the page does not list.
func (r Replica) RunsMore() int { return r.Running - len(r.RunsShown()) }

func replicaState(v storage.ReplicaView, now time.Time) ReplicaState {
	lifetime := v.ExpiresAt.Sub(v.LastBeat)
	switch {
	case v.Stopped:
		return ReplicaStopped
	case v.EndedAt != nil:
		return ReplicaLost
	case !now.Before(v.ExpiresAt):
		return ReplicaExpired
	case now.Sub(v.LastBeat) > lifetime/2:
		return ReplicaLate
	}
	return ReplicaLive
}

// live reports whether the replica's session is valid.
func (r Replica) live() bool { return r.State == ReplicaLive || r.State == ReplicaLate }
