package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// liveSessions returns n live sessions with one cron table.
func liveSessions(n int) []storage.ReplicaView {
	sessions := make([]storage.ReplicaView, n)
	for i := range sessions {
		sessions[i] = storage.ReplicaView{Session: uuid.Must(uuid.NewV7()), ConfigHash: "table"}
	}
	return sessions
}

// rankingOf returns the ranking of a replica, which it may use for a minute.
func rankingOf(sessions []storage.ReplicaView, own uuid.UUID) *ranking {
	r := &ranking{}
	r.update(sessions, own, time.Now().Add(time.Minute))
	return r
}

// Replicas that know the same sessions have different ranks for each firing, and each of them is
// the first replica of about as many firings.
func TestReplicasHaveDifferentRanks(t *testing.T) {
	const replicas, firings = 5, 5000 // the standard deviation of a share is 28
	sessions := liveSessions(replicas)
	var rankings []*ranking
	for _, s := range sessions {
		rankings = append(rankings, rankingOf(sessions, s.Session))
	}
	first := make([]int, replicas)
	for i := range firings {
		job, at := fmt.Sprint("job-", i%10), time.Unix(int64(i/10), 0)
		found := map[int]bool{}
		for replica, r := range rankings {
			rank := r.at(time.Now()).rank(hashFiring(job, at), replicas)
			if found[rank] || rank < 0 || rank >= replicas {
				t.Fatalf("%s at %s: got rank %d on a replica, want each rank from 0 to %d once",
					job, at, rank, replicas-1)
			}
			if found[rank] = true; rank == 0 {
				first[replica]++
			}
		}
	}
	for replica, n := range first {
		if n < firings/replicas*3/4 || n > firings/replicas*5/4 {
			t.Errorf("replica %d: got %d first firings of %d, want about a fifth", replica, n,
				firings)
		}
	}
}

// A replica that may be the only one does not wait for others.
func TestReplicaWithoutARankingIsUnranked(t *testing.T) {
	sessions := liveSessions(3)
	now := time.Now()
	for name, r := range map[string]*ranking{
		"nothing was compared":                     {},
		"its session is not one of those":          rankingOf(sessions, uuid.New()),
		"the last comparison was a minute ago":     rankingOf(sessions, sessions[0].Session),
		"its session is the only one and outdated": rankingOf(sessions[:1], sessions[0].Session),
	} {
		members := r.at(now.Add(2 * time.Minute))
		if got := members.rank(hashFiring("job", now), sharedRank); got != unranked {
			t.Errorf("%s: got rank %d, want unranked", name, got)
		}
	}
}

// A replica that cannot start a firing is not ranked before another.
func TestReplicasThatCannotStartAreNotRanked(t *testing.T) {
	for name, change := range map[string]func(*storage.ReplicaView){
		"it has other jobs": func(v *storage.ReplicaView) { v.ConfigHash = "other" },
		"it is drained":     func(v *storage.ReplicaView) { v.Draining = true },
		"it is stopping":    func(v *storage.ReplicaView) { v.Stopping = true },
		"it is not ready":   func(v *storage.ReplicaView) { v.NotReady = "its clock is off" },
	} {
		sessions := liveSessions(3)
		for i := range sessions[1:] {
			change(&sessions[i+1])
		}
		r := rankingOf(sessions, sessions[0].Session)
		for i := range 100 {
			hash := hashFiring("job", time.Unix(int64(i), 0))
			if got := r.at(time.Now()).rank(hash, sharedRank); got != 0 {
				t.Fatalf("%s: got rank %d, want 0", name, got)
			}
		}
	}
}

// Only other live replicas, or another session of this replica, are a change.
func TestRankingReportsChanges(t *testing.T) {
	sessions := liveSessions(3)
	own := sessions[1].Session
	r := &ranking{changed: make(chan struct{}, 1)}
	for i, test := range []struct {
		sessions []storage.ReplicaView
		want     bool
	}{
		{sessions, true}, {sessions, false}, {sessions[:2], true}, {sessions[:2], false},
		{sessions[1:], true}, {sessions[2:], true}, {sessions, true}, {sessions, false},
	} {
		r.update(test.sessions, own, time.Now().Add(time.Minute))
		got := false
		select {
		case <-r.changed:
			got = true
		default:
		}
		if got != test.want {
			t.Errorf("update %d: got a change: %t, want %t", i, got, test.want)
		}
	}
	r.update(sessions, sessions[0].Session, time.Now().Add(time.Minute))
	if len(r.changed) != 1 {
		t.Error("got no change for another session of this replica")
	}
}

func TestRankDelays(t *testing.T) {
	const hour, threshold = time.Hour, 30 * time.Second
	for _, test := range []struct {
		rank                          int
		interval, threshold, deadline time.Duration
		want                          time.Duration
	}{
		{0, hour, threshold, 0, 0},
		{1, hour, threshold, 0, 40 * time.Millisecond},
		{2, hour, threshold, 0, 80 * time.Millisecond},
		{1, hour, threshold, 100 * time.Millisecond, 25 * time.Millisecond},
		{2, hour, threshold, 100 * time.Millisecond, 25 * time.Millisecond},
	} {
		longest := longestDelayOf(t, test.interval, test.threshold, test.deadline)
		if got := min(rankDelay(test.rank), longest); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

// longestDelayOf returns the longest delay of a job that fires at the interval.
func longestDelayOf(t *testing.T, interval, threshold, deadline time.Duration) time.Duration {
	t.Helper()
	e := entryEvery(t, interval, jobs.MisfireSkip)
	e.MisfireThreshold, e.Deadline = threshold, deadline
	at := e.Schedule.Next(time.Now())
	return longestDelay(e.leaveLimit(), at, e.Schedule.Next(at))
}

// The rank is that of a replica for the burst.
func TestBurstDelays(t *testing.T) {
	const hour, threshold = time.Hour, 30 * time.Second
	for _, test := range []struct {
		rank                          int
		interval, threshold, deadline time.Duration
		want                          time.Duration
	}{
		{0, hour, threshold, 0, 250 * time.Millisecond},
		{1, hour, threshold, 0, 370 * time.Millisecond},
		{2, hour, threshold, 0, 490 * time.Millisecond},
		{3, hour, threshold, 0, 500 * time.Millisecond},
		{5, hour, threshold, 0, 500 * time.Millisecond},
		{6, hour, threshold, 0, time.Second},
		{12, hour, threshold, 0, 2 * time.Second},
		{1000, hour, threshold, 0, 2 * time.Second},
		{1000, time.Second, threshold, 0, 500 * time.Millisecond},
		{1000, hour, time.Second, 0, 250 * time.Millisecond},
		{1000, hour, threshold, 2 * time.Second, 500 * time.Millisecond},
		// it looks at each firing of such a job, after at most 25 ms
		{1000, hour, threshold, 100 * time.Millisecond, 0},
	} {
		longest := mayShare(longestDelayOf(t, test.interval, test.threshold, test.deadline))
		if got := min(burstDelay(test.rank), longest); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

// A replica begins its own firings before those of others.
func TestQueueBeginsWithTheOwnFirings(t *testing.T) {
	r := newReady("replica", 1)
	at := storage.Firing{ScheduledAt: time.Unix(100, 0)}
	for _, rank := range []int{2, 0, 3, 1} {
		r.push(pending{entry: &entry{}, Firing: at, rank: rank})
	}
	for want := range 4 {
		if p, ok := r.pop(); !ok || p.rank != want {
			t.Errorf("got rank %d, want %d", p.rank, want)
		}
	}
}
