package engine

import (
	"maps"
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
		taken, ranked, slot := 0, 0, time.Time{}
		for range intervals * turnTakers {
			time.Sleep(time.Second / turnTakers) // each turn of an interval
			now := time.Now()
			if current := now.Add(turnShift).Truncate(time.Second); !current.Equal(slot) {
				slot, ranked = current, 0
			}
			for i := range all {
				since := now.Sub(last[i])
				overdue := last[i].Add(turnAtLeast * time.Second)
				if all[i].next(now, time.Second, overdue, last[i].Add(time.Second)).After(now) {
					if since >= turnAtLeast*time.Second {
						t.Errorf("replica %d: got no turn for %s", i, since)
					}
					continue
				}
				if since < turnAtLeast*time.Second {
					ranked++
				}
				taken++
				last[i] = now
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

// With many replicas, the turns that are overdue add little to the three of an interval.
func TestOverdueTurnsDoNotGrowWithTheReplicas(t *testing.T) {
	for _, replicas := range []int{12, 48, 100} {
		synctest.Test(t, func(t *testing.T) {
			const length, interval = time.Hour, 5 * time.Second
			sessions, until := liveSessions(replicas), time.Now().Add(length)
			taken := 0
			for _, s := range sessions {
				own := turns{&ranking{}, &clusterClock{}}
				own.ranking.update(sessions, s.Session, until)
				for last := time.Now(); last.Before(until); {
					overdue := last.Add(own.rarest(interval))
					next := own.next(last, interval, overdue, last.Add(interval))
					if most := time.Duration(max(replicas, 10)) * interval; next.Sub(last) > most {
						t.Errorf("got no turn for %s, want one within %s", next.Sub(last), most)
					}
					if last = next; last.Before(until) {
						taken++
					}
				}
			}
			each := float64(taken) / float64(length/interval)
			if each < turnTakers-0.2 || each > turnTakers+1 {
				t.Errorf("%d replicas: got %.2f turns in an interval, want about %d", replicas,
					each, turnTakers)
			}
		})
	}
}

// The turns of an interval are a third of it apart. An interval begins half a second before a
// multiple of its length.
func TestTurnsOfAnIntervalAreApart(t *testing.T) {
	const interval = 3 * time.Second
	begin := time.Now().Add(time.Minute).Truncate(interval).Add(interval - 500*time.Millisecond)
	sessions := liveSessions(12)
	turned := map[time.Duration]int{}
	for _, s := range sessions {
		r := &ranking{}
		r.update(sessions, s.Session, begin.Add(time.Hour))
		next := turns{r, &clusterClock{}}.next(begin, interval, begin.Add(time.Hour), begin)
		if after := next.Sub(begin); after < interval {
			turned[after]++
		}
	}
	want := map[time.Duration]int{0: 1, time.Second: 1, 2 * time.Second: 1}
	if !maps.Equal(turned, want) {
		t.Errorf("got turns after %v, want %v", turned, want)
	}
}

// The next turn is the first time at which a replica has its turn, also if it slept until then: all
// times before are in intervals of others, and less than ten intervals after the last turn.
func TestNextTurnIsTheFirst(t *testing.T) {
	const interval, replicas = 3 * time.Second, 12
	start := time.Now()
	sessions := liveSessions(replicas)
	for _, s := range sessions {
		r := &ranking{}
		r.update(sessions, s.Session, start.Add(time.Hour))
		all := turns{r, &clusterClock{}}
		for last := start; last.Before(start.Add(time.Minute)); {
			earliest, overdue := last.Add(interval/4), last.Add(turnAtLeast*interval)
			next := all.next(last, interval, overdue, earliest)
			if next.Before(earliest) || next.Sub(last) > turnAtLeast*interval {
				t.Fatalf("got the next turn %s after the last one", next.Sub(last))
			}
			if at := all.next(next, interval, overdue, next); !at.Equal(next) {
				t.Fatalf("at its next turn, the replica has its turn only %s later", at.Sub(next))
			}
			for at := earliest; at.Before(next); at = at.Add(20 * time.Millisecond) {
				if got := all.next(at, interval, overdue, at); !got.Equal(next) {
					t.Fatalf("%s before the next turn: got it in %s", next.Sub(at), got.Sub(at))
				}
			}
			last = next
		}
		now := start.Add(time.Hour / 2)
		if next := all.next(now, interval, start, now.Add(-time.Minute)); !next.Equal(now) {
			t.Fatalf("half an hour after the last turn: got the next one after %s", next.Sub(now))
		}
	}
}

// Few replicas, and a replica that does not know the others, always have their turn.
func TestFewReplicasAlwaysHaveTheirTurn(t *testing.T) {
	sessions := liveSessions(turnTakers)
	for name, r := range map[string]*ranking{"unknown": {},
		"few": rankingOf(sessions, sessions[0].Session)} {
		now := time.Now()
		if at := (turns{r, &clusterClock{}}).next(now, time.Second, now, now); !at.Equal(now) {
			t.Errorf("%s: got no turn, want one", name)
		}
	}
}
