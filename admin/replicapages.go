package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func (s clusterPages) replicasJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]Replica, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		p, err := s.reader.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return s.reader.BusyReplicas(ctx, p)
	})
}

func (s clusterPages) databasesJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]Database, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		p, err := s.reader.Snapshot(ctx)
		return cluster.DatabasesOf(p.Replicas), err
	})
}

func (s clusterPages) replicasPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[replicasView]{
		Template: "replicas.html", Section: "/replicas", Title: "Replicas", Live: true,
		Topics: []storage.Topic{storage.TopicReplicas, storage.TopicRuns, storage.TopicJobs},
		Load: func(ctx context.Context, p cluster.Snapshot) (v replicasView, err error) {
			v.Drift, v.Databases = p.Drift, cluster.DatabasesOf(p.Replicas)
			v.Replicas, err = s.reader.BusyReplicas(ctx, p)
			return v, err
		},
		Complete: func(v *replicasView, f *pages.Frame) {
			v.Memcached, v.ServedBy = s.Local.Memcached(), f.ServedBy
			v.now, v.heartbeats = f.Now, s.options.Heartbeats
		},
	})
}

// replicasView is the page of replicas.
type replicasView struct {
	Replicas  []Replica
	Drift     []storage.JobDrift // jobs whose definitions differ between live replicas
	Databases []Database
	Memcached *MemcachedView
	ServedBy  cluster.ServedBy

	now        time.Time
	heartbeats func(session uuid.UUID) []storage.HeartbeatView // may be nil
}

// HasHeartbeats reports whether this replica remembers heartbeats.
func (v *replicasView) HasHeartbeats() bool { return v.heartbeats != nil }

// Heartbeats returns the picture of the last heartbeats of a replica.
func (v *replicasView) Heartbeats(r Replica) charts.HeartbeatStrip {
	var lostAt time.Time
	if r.Lost() {
		lostAt = r.ExpiresAt
	}
	return charts.NewHeartbeatStrip(v.now, v.heartbeats(r.Session), lostAt)
}

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
		if r.Live() && of(r) != "" {
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

// shownDrift is the number of jobs with drift that the page lists.
const shownDrift = 50

func (s clusterPages) memcachedJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	view := MemcachedView{SeenBy: s.options.Replica, Servers: []memcached.Health{}}
	if known := s.Local.Memcached(); known != nil {
		view = *known
	}
	s.WriteJSON(w, http.StatusOK, view)
}
