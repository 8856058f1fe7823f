package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The time and the dimensions of lanes of replicas. Heights are in pixels.
const (
	replicaTime     = 24 * time.Hour
	replicaTimeLeft = 20 * time.Minute // after now, so that the loss of a moment ago is in sight
	replicaLane     = 44
	replicaBar      = 22
	// MaxReplicaLanes is the number of replicas in a picture. Of more, those that ended last are
	// shown.
	MaxReplicaLanes = 20
)

// ReplicaLanes is when each replica was live in the last 24 hours.
type ReplicaLanes struct {
	Lanes  []ReplicaLane
	Ticks  []Tick
	Height int
	NowX   Percent
	Words  string
	More   int // replicas that are left out
}

// ReplicaLane is the sessions of the replicas with one name.
type ReplicaLane struct {
	Name string
	// State is that of the last session: live, draining, stopped or lost.
	State string
	Words string // the state, and for how long the replica was live
	Y     int    // its upper edge
	Bars  []ReplicaBar
	Lost  []ReplicaLoss
}

// ReplicaBar is a time of a session in which it was live: draining or not.
type ReplicaBar struct {
	X, W     Percent
	Y        int
	Draining bool
	Label    string // "" if the bar has no room for it
	Title    string
}

// ReplicaLoss is the expiry of a session.
type ReplicaLoss struct {
	X      Percent
	Y1, Y2 int
	Title  string
}

// AxisY returns the lower end of the axis in pixels.
func (ReplicaLanes) AxisY() int { return agendaAxis }

// BarHeight returns the height of a bar in pixels.
func (ReplicaLanes) BarHeight() int { return replicaBar }

// LostAt returns when a session expired, or false if it is live or its replica ended it.
func LostAt(s storage.ReplicaSession, now time.Time) (time.Time, bool) {
	return s.ExpiresAt, !s.Stopped && !s.ExpiresAt.After(now)
}

// SessionEnd returns the end of the time in which a session was live, or now if it is live.
func SessionEnd(s storage.ReplicaSession, now time.Time) time.Time {
	if s.ExpiresAt.Before(now) {
		return s.ExpiresAt
	}
	return now
}

// SessionState returns the state of a session at that time.
func SessionState(s storage.ReplicaSession, now time.Time) string {
	_, lost := LostAt(s, now)
	switch n := len(s.Drains); {
	case lost:
		return "lost"
	case s.EndedAt != nil:
		return "stopped"
	case n > 0 && s.Drains[n-1].Until == nil:
		return "draining"
	}
	return "live"
}

// NewReplicaLanes draws sessions, which are sorted by name and start.
func NewReplicaLanes(now time.Time, sessions []storage.ReplicaSession) *ReplicaLanes {
	from, until := now.Add(-replicaTime), now.Add(replicaTimeLeft)
	d := replicaDrawer{agendaDrawer{from: from, length: float64(until.Sub(from))}, now}
	r := &ReplicaLanes{Ticks: ticks(from, until), Height: agendaAxis, NowX: d.x(now)}
	var byName [][]storage.ReplicaSession
	for _, s := range sessions {
		if n := len(byName); n > 0 && byName[n-1][0].Name == s.Name {
			byName[n-1] = append(byName[n-1], s)
			continue
		}
		byName = append(byName, []storage.ReplicaSession{s})
	}
	byName, r.More = latestReplicas(byName, now)
	counts := make(map[string]int)
	for _, of := range byName {
		lane := d.lane(of, r.Height)
		counts[lane.State]++
		r.Height += replicaLane
		r.Lanes = append(r.Lanes, lane)
	}
	var parts []string
	for _, state := range []string{"live", "draining", "lost", "stopped"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, words.Count(n)+" "+state)
		}
	}
	r.Words = "Replicas of the last 24 hours: " + strings.Join(parts, ", ")
	return r
}

// latestReplicas returns the replicas to draw, in the order of their names, and the number of
// others.
func latestReplicas(byName [][]storage.ReplicaSession,
	now time.Time) (shown [][]storage.ReplicaSession, more int) {
	if len(byName) <= MaxReplicaLanes {
		return byName, 0
	}
	end := func(of []storage.ReplicaSession) (last time.Time) {
		for _, s := range of {
			if at := SessionEnd(s, now); at.After(last) {
				last = at
			}
		}
		return last
	}
	shown = slices.Clone(byName)
	slices.SortStableFunc(shown, func(a, b []storage.ReplicaSession) int {
		return end(b).Compare(end(a))
	})
	shown = shown[:MaxReplicaLanes]
	slices.SortFunc(shown, func(a, b []storage.ReplicaSession) int {
		return cmp.Compare(a[0].Name, b[0].Name)
	})
	return shown, len(byName) - len(shown)
}

type replicaDrawer struct {
	agendaDrawer
	now time.Time
}

// lane draws the sessions of a replica.
func (d replicaDrawer) lane(sessions []storage.ReplicaSession, y int) ReplicaLane {
	last := sessions[len(sessions)-1]
	lane := ReplicaLane{Name: last.Name, State: SessionState(last, d.now), Y: y}
	var live time.Duration
	known := d.from // up to which live counts, because sessions of one name can overlap
	for _, s := range sessions {
		begin, end := s.StartedAt, SessionEnd(s, d.now)
		if at, lost := LostAt(s, d.now); lost && !at.Before(d.from) {
			lane.Lost = append(lane.Lost, ReplicaLoss{X: d.x(at), Y1: y + 5,
				Y2: y + replicaLane - 5, Title: fmt.Sprintf("%s was lost: its session expired %s",
					words.Cut(s.Name, 60),
					words.UTC(at))})
		}
		if counted := later(begin, known); end.After(counted) {
			live, known = live+end.Sub(counted), end
		}
		for _, drain := range s.Drains {
			until := end
			if drain.Until != nil {
				until = *drain.Until
			}
			lane.Bars = d.live(lane.Bars, s, y, begin, drain.From, false)
			lane.Bars = d.live(lane.Bars, s, y, drain.From, until, true)
			begin = until
		}
		lane.Bars = d.live(lane.Bars, s, y, begin, end, false)
	}
	lane.Words = "live for " + words.Took(live.Truncate(time.Second))
	if lane.State != "live" {
		lane.Words = lane.State + ", " + lane.Words
	}
	return lane
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// live adds a bar, unless its time is before the picture.
func (d replicaDrawer) live(bars []ReplicaBar, s storage.ReplicaSession, y int, begin,
	end time.Time, draining bool) []ReplicaBar {
	if !end.After(d.from) || !end.After(begin) {
		return bars
	}
	verb := "live"
	if draining {
		verb = "draining"
	}
	version := "unknown version"
	if s.Version != "" {
		version = "version " + words.Cut(s.Version, 60)
	}
	bar := d.bar(begin, end, 0, "", "", "")
	b := ReplicaBar{X: bar.X, W: bar.W, Y: y + (replicaLane-replicaBar)/2, Draining: draining,
		Title: fmt.Sprintf("%s was %s from %s to %s, %s", words.Cut(s.Name, 60), verb,
			words.UTC(begin), words.UTC(end), version)}
	switch {
	case bar.W < labelledWidth:
	case draining:
		b.Label = "draining"
	default:
		b.Label = version
	}
	return append(bars, b)
}
