package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// In each interval, three of many replicas have their turn, and each replica has one after ten
// intervals at the latest.
func TestReplicasTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const replicas, intervals = 20, 200
		sessions := liveSessions(replicas)
		all, last := make([]turns, replicas), make([]time.Time, replicas)
		for i, s := range sessions {
			all[i] = turns{&ranking{}, &clusterClock{}}
			all[i].ranking.update(sessions, s.Session, time.Now().Add(time.Hour))
			last[i] = time.Now()
		}
		taken := 0
		for range intervals {
			time.Sleep(time.Second)
			ranked := 0
			for i := range all {
				since := time.Since(last[i])
				if !all[i].has(time.Second, last[i]) {
					if since >= turnAtLeast*time.Second {
						t.Errorf("replica %d: got no turn for %s", i, since)
					}
					continue
				}
				if since < turnAtLeast*time.Second {
					ranked++
				}
				taken++
				last[i] = time.Now()
			}
			if ranked > turnTakers {
				t.Fatalf("got %d replicas with a turn, want %d", ranked, turnTakers)
			}
		}
		// those whose turn is overdue come on top of the three
		if taken < turnTakers*intervals || taken > 2*turnTakers*intervals {
			t.Errorf("got %d turns in %d intervals, want about %d", taken, intervals,
				turnTakers*intervals)
		}
	})
}

// Few replicas, and a replica that does not know the others, always have their turn.
func TestFewReplicasAlwaysHaveTheirTurn(t *testing.T) {
	sessions := liveSessions(turnTakers)
	for name, r := range map[string]*ranking{"unknown": {},
		"few": rankingOf(sessions, sessions[0].Session)} {
		if !(turns{r, &clusterClock{}}).has(time.Second, time.Now()) {
			t.Errorf("%s: got no turn, want one", name)
		}
	}
}
