package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A replica in a cluster takes due firings together, and the first after a pause when it is due. A
// replica that is alone takes each when it is due.
func TestDueFiringsGatherUnlessTheReplicaIsAlone(t *testing.T) {
	due := []int{100, 110, 140, 160, 400} // milliseconds
	for replicas, want := range map[int][]int{0: due, 1: due, 2: {100, 150, 150, 200, 400}} {
		synctest.Test(t, func(t *testing.T) {
			d, e := newTestDispatcher(t)
			d.timetable, d.pace = timetable{}, newPaces(false).dispatch
			if replicas > 0 {
				sessions := liveSessions(replicas)
				d.ranking = rankingOf(sessions, sessions[0].Session)
			}
			start := time.Now()
			for _, ms := range due {
				at := start.Add(time.Duration(ms) * time.Millisecond)
				d.timetable.put(planned{scheduledAt: at, ranked: true, entry: e})
			}
			var taken []int
			for ms := range 500 {
				d.tick()
				for d.ready.len() > len(taken) {
					taken = append(taken, ms)
				}
				time.Sleep(time.Millisecond)
			}
			if !slices.Equal(taken, want) {
				t.Errorf("%d replicas: firings that are due at %d ms were taken at %d ms, want %d",
					replicas, due, taken, want)
			}
		})
	}
}
