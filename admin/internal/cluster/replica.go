package cluster

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// shownOfReplica is the number of runs per replica that the page lists.
const shownOfReplica = 20

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
	lifetime := v.ExpiresAt.Sub(v.LastHeartbeat)
	switch {
	case v.Stopped:
		return ReplicaStopped
	case v.EndedAt != nil:
		return ReplicaLost
	case !now.Before(v.ExpiresAt):
		return ReplicaExpired
	case now.Sub(v.LastHeartbeat) > lifetime/2:
		return ReplicaLate
	}
	return ReplicaLive
}

// Live reports whether the replica's session is valid.
func (r Replica) Live() bool { return r.State == ReplicaLive || r.State == ReplicaLate }

// Lost reports whether the replica's session expired.
func (r Replica) Lost() bool { return r.State == ReplicaLost || r.State == ReplicaExpired }

// StartsRuns reports whether the replica is live and can start runs, as of its last heartbeat.
func (r Replica) StartsRuns() bool {
	return r.Live() && r.NotReady == "" && !r.Draining && !r.Stopping
}
