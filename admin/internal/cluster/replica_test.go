package cluster

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestReplicaStates(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	view := func(heartbeat, expires time.Duration, end *time.Time) storage.ReplicaView {
		return storage.ReplicaView{LastHeartbeat: ago(heartbeat), ExpiresAt: ago(expires),
			EndedAt: end}
	}
	// Stores record the end of a session that its replica ended at or after the expiry.
	ended := func(stopped bool) storage.ReplicaView {
		end := ago(45*time.Second - time.Microsecond)
		v := view(60*time.Second, 45*time.Second, &end)
		v.Stopped = stopped
		return v
	}
	cases := []struct {
		view storage.ReplicaView
		want ReplicaState
	}{
		{view(5*time.Second, -10*time.Second, nil), ReplicaLive},
		{view(8*time.Second, -7*time.Second, nil), ReplicaLate},
		{view(15*time.Second, 0, nil), ReplicaExpired},
		{ended(true), ReplicaStopped},
		{ended(false), ReplicaLost},
	}
	for _, c := range cases {
		if got := replicaState(c.view, now); got != c.want {
			t.Errorf("%+v is %s, want %s", c.view, got, c.want)
		}
	}
}
