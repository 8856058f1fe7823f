package charts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var midday = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// sessionOf returns a session by the hours before midday at which it began and ended. An end of 0
// is a live session.
func sessionOf(name string, began, ended float64, stopped bool,
	drains ...time.Time) storage.ReplicaSession {
	before := func(hours float64) time.Time {
		return midday.Add(-time.Duration(hours * float64(time.Hour)))
	}
	s := storage.ReplicaSession{Session: uuid.New(), Name: name, Version: "1.4.0",
		StartedAt: before(began), ExpiresAt: midday.Add(15 * time.Second), Stopped: stopped,
		Drains: storage.NewDrains(drains)}
	if ended > 0 {
		at := before(ended)
		s.ExpiresAt, s.EndedAt = at, &at
	}
	return s
}

func describeLane(l ReplicaLane) string {
	parts := []string{l.Name + " " + l.Words + ":"}
	for _, b := range l.Bars {
		text := fmt.Sprintf("%.1f+%.1f", float64(b.X), float64(b.W))
		if b.Draining {
			text += " draining"
		}
		parts = append(parts, text)
	}
	for _, lost := range l.Lost {
		parts = append(parts, fmt.Sprintf("lost at %.1f", float64(lost.X)))
	}
	return strings.Join(parts, " | ")
}

// TestLanesOfReplicas draws 24 hours and 20 minutes: an hour is 4.1 percent of the width.
func TestLanesOfReplicas(t *testing.T) {
	hour := func(before float64) time.Time {
		return midday.Add(-time.Duration(before * float64(time.Hour)))
	}
	for want, sessions := range map[string][]storage.ReplicaSession{
		"a live for 1 d: | 0.0+98.6": {sessionOf("a", 30, 0, false)},
		"a live for 1 d: | 0.0+98.6 ": { // the drain ended before the picture
			sessionOf("a", 30, 0, false, hour(28), hour(26))},
		"a live for 3 h: | 86.3+12.3": {sessionOf("a", 3, 0, false)},
		"a lost, live for 12 h: | 0.0+49.3 | lost at 49.3": {
			sessionOf("a", 24, 12, false)},
		"a stopped, live for 12 h: | 0.0+49.3": {sessionOf("a", 24, 12, true)},
		"a live for 22 h: | 0.0+41.1 | 49.3+49.3 | lost at 41.1": {
			sessionOf("a", 24, 14, false), sessionOf("a", 12, 0, false)},
		// Two replicas with one name: the time counts once.
		"a live for 1 d: | 0.0+98.6 | 49.3+49.3": {
			sessionOf("a", 24, 0, false), sessionOf("a", 12, 0, false)},
		"a live for 1 d: | 0.0+41.1 | 41.1+8.2 draining | 49.3+49.3": {
			sessionOf("a", 24, 0, false, hour(14), hour(12))},
		"a draining, live for 1 d: | 0.0+94.5 | 94.5+4.1 draining": {
			sessionOf("a", 24, 0, false, hour(1))},
		"a stopped, live for 23 h: | 0.0+90.4 | 90.4+4.1 draining": {
			sessionOf("a", 24, 1, true, hour(2))},
	} {
		r := NewReplicaLanes(midday, sessions)
		if len(r.Lanes) != 1 || describeLane(r.Lanes[0]) !=
			strings.TrimSpace(want) {
			t.Errorf("got %q, want %q", describeLane(r.Lanes[0]), want)
		}
	}
}

func TestLanesOfReplicasAreBounded(t *testing.T) {
	var sessions []storage.ReplicaSession
	for i := range MaxReplicaLanes + 3 {
		ended := 0.
		if i%2 == 1 {
			ended = float64(i)
		}
		sessions = append(sessions, sessionOf(fmt.Sprintf("r%02d", i), 24, ended, true))
	}
	r := NewReplicaLanes(midday, sessions)
	var names []string
	for _, lane := range r.Lanes {
		names = append(names, lane.Name)
	}
	const want = "r00 r01 r02 r03 r04 r05 r06 r07 r08 r09 r10 r11 r12 r13 r14 r15 r16 r18 r20 r22"
	if got := strings.Join(names, " "); got != want || r.More != 3 {
		t.Errorf("got %s and %d more, want %s and 3 more", got, r.More, want)
	}
	if want := "Replicas of the last 24 hours: 12 live, 8 stopped"; r.Words != want {
		t.Errorf("got %q, want %q", r.Words, want)
	}
	if want := r.Lanes[len(r.Lanes)-1].Y + replicaLane; r.Height != want || r.NowX > 99 {
		t.Errorf("height %d, now at %s, want %d and before the edge", r.Height, r.NowX, want)
	}
}
