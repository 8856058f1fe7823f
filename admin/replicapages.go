package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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

// maxSessions is the number of sessions of the last 24 hours that are read. Usually there are as
// many as replicas were started.
const maxSessions = 1_000

// sessionsOfDay returns the sessions of replicas in the last 24 hours.
func sessionsOfDay(ctx context.Context, store storage.History,
	now time.Time) ([]storage.ReplicaSession, error) {
	found, err := store.ReplicaSessions(ctx, now.Add(-storage.ReplicaSessionsKept), maxSessions)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return append([]storage.ReplicaSession{}, found...), nil // never null
}

func (s clusterPages) sessionsJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.ReplicaSession, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return nil, err
		}
		return sessionsOfDay(ctx, s.reader.Store, now)
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
			if v.Sessions, err = sessionsOfDay(ctx, s.reader.Store, p.Now); err != nil {
				return v, err
			}
			v.Lanes = charts.NewReplicaLanes(p.Now, v.Sessions)
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
	Sessions  []storage.ReplicaSession // of the last 24 hours
	Lanes     *charts.ReplicaLanes
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

// shownSessions is the number of sessions that the table of the page lists.
const shownSessions = 50

// SessionsShown returns the sessions that the page lists: the youngest.
func (v *replicasView) SessionsShown() []storage.ReplicaSession {
	sorted := slices.Clone(v.Sessions)
	slices.SortStableFunc(sorted, func(a, b storage.ReplicaSession) int {
		return b.StartedAt.Compare(a.StartedAt)
	})
	return sorted[:min(len(sorted), shownSessions)]
}

// SessionsMore returns the number of sessions that the page does not list.
func (v *replicasView) SessionsMore() int { return len(v.Sessions) - len(v.SessionsShown()) }

// SessionState returns the state of a session in a word.
func (v *replicasView) SessionState(s storage.ReplicaSession) string {
	return charts.SessionState(s, v.now)
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
