package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestHeartbeatLogForgets notes heartbeats for longer than the log keeps them.
func TestHeartbeatLogForgets(t *testing.T) {
	var log heartbeatLog
	begin := time.Date(2026, 3, 17, 2, 0, 0, 0, time.UTC)
	live, ended := uuid.New(), uuid.New()
	for at := begin; at.Before(begin.Add(2 * heartbeatsKept)); at = at.Add(5 * time.Second) {
		seen := storage.ReplicaView{Session: live, LastHeartbeat: at.Add(-time.Second),
			ExpiresAt: at.Add(14 * time.Second)}
		other := seen
		other.Session = ended
		if at.After(begin.Add(time.Minute)) {
			other.EndedAt = &at
		}
		log.note(sessionList{at: at, open: []storage.ReplicaView{seen, other}})
		if n := len(log.of(ended)); n > 13 {
			t.Fatalf("an ended session has %d heartbeats, want at most 13", n)
		}
	}
	last := begin.Add(2*heartbeatsKept - 5*time.Second)
	views := log.of(live)
	if len(views) != int(heartbeatsKept/(5*time.Second)) || !views[len(views)-1].At.Equal(last) ||
		!slices.IsSortedFunc(views, func(a, b storage.HeartbeatView) int {
			return a.At.Compare(b.At)
		}) {
		t.Errorf("a live session has %d heartbeats, the last of %v", len(views),
			views[len(views)-1])
	}
	if got := log.of(ended); got != nil {
		t.Errorf("a session that ended long ago has %d heartbeats, want none", len(got))
	}
	if len(log.seen) != 1 {
		t.Errorf("the log has %d sessions, want 1", len(log.seen))
	}
}

// TestHeartbeatLogShowsOwnLateHeartbeats checks the heartbeats of the session whose heartbeats read
// the lists.
func TestHeartbeatLogShowsOwnLateHeartbeats(t *testing.T) {
	var log heartbeatLog
	begin := time.Date(2026, 3, 17, 2, 0, 0, 0, time.UTC)
	own := uuid.New()
	var ages []time.Duration
	for _, sent := range []time.Duration{0, time.Second, 5 * time.Second, 13 * time.Second} {
		at := begin.Add(sent)
		log.note(sessionList{at: at, session: own, open: []storage.ReplicaView{{Session: own,
			LastHeartbeat: at.Add(time.Millisecond), ExpiresAt: at.Add(15 * time.Second)}}})
	}
	for _, v := range log.of(own) {
		ages = append(ages, v.At.Sub(v.LastHeartbeat).Round(time.Second))
	}
	if want := []time.Duration{0, 4 * time.Second, 8 * time.Second}; !slices.Equal(ages, want) {
		t.Errorf("got heartbeats with the ages %v, want %v", ages, want)
	}
}
