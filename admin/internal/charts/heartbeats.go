package charts

import (
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// HeartbeatStrip is the heartbeats of a replica in the last 10 minutes, as another replica saw
// them.
type HeartbeatStrip struct {
	Width, Height int
	Words         string

	cells [heartbeatCells]heartbeatCell
}

// The time and the dimensions of a strip of heartbeats. Widths and heights are in pixels. Height
// and shape show how a heartbeat was, so that colour is not the only signal.
const (
	heartbeatTime   = 10 * time.Minute
	heartbeatCells  = 40
	heartbeatStep   = 3
	heartbeatWidth  = 2
	heartbeatHeight = 18
)

// heartbeatCell is the worst of the heartbeats of a part of the time.
type heartbeatCell int

const (
	heartbeatUnknown heartbeatCell = iota // no replica looked, or the session had not begun
	heartbeatOnTime
	heartbeatLate    // older than half of the session's lifetime
	heartbeatMissing // the session had expired
)

// NewHeartbeatStrip draws the heartbeats of a session, oldest first. LostAt is when the session
// expired, or zero if it has not or if the replica ended it.
func NewHeartbeatStrip(now time.Time, seen []storage.HeartbeatView,
	lostAt time.Time) HeartbeatStrip {
	s := HeartbeatStrip{Width: heartbeatCells * heartbeatStep, Height: heartbeatHeight}
	const length = heartbeatTime / heartbeatCells
	begin := now.Truncate(length).Add(length - heartbeatTime)
	late, known := 0, 0
	for _, v := range seen {
		i := int(v.At.Sub(begin) / length)
		if v.At.Before(begin) || i >= heartbeatCells {
			continue
		}
		cell := heartbeatOnTime
		switch age := v.At.Sub(v.LastHeartbeat); {
		case !v.At.Before(v.ExpiresAt):
			cell = heartbeatMissing
		case age > v.ExpiresAt.Sub(v.LastHeartbeat)/2:
			cell = heartbeatLate
			late++
		}
		known++
		s.cells[i] = max(s.cells[i], cell)
	}
	for i := range s.cells {
		end := begin.Add(time.Duration(i+1) * length)
		if !lostAt.IsZero() && end.After(lostAt) {
			s.cells[i] = heartbeatMissing
		}
	}
	s.Words = "Heartbeats of the last 10 minutes: "
	switch {
	case !lostAt.IsZero():
		s.Words += "none for " + words.Took(now.Sub(lostAt).Truncate(time.Second)) +
			" since the session expired"
	case known == 0:
		s.Words += "not known"
	case late > 0:
		s.Words += words.Figure(late, "late", "late") + " of " + words.Count(known) + " seen"
	default:
		s.Words += "all on time"
	}
	return s
}

// IsKnown reports whether the strip shows a heartbeat, or that there is none.
func (s HeartbeatStrip) IsKnown() bool {
	for _, cell := range s.cells {
		if cell != heartbeatUnknown {
			return true
		}
	}
	return false
}

// Elements returns the marks of a strip: a low bar for heartbeats that were on time, a high one for
// late ones, and a cross where they end.
func (s HeartbeatStrip) Elements() Fragment {
	var out markup.Builder
	for i, cell := range s.cells {
		x := i * heartbeatStep
		switch cell {
		case heartbeatOnTime:
			addHeartbeat(&out, "succeeded", x, 11)
		case heartbeatLate:
			addHeartbeat(&out, "late", x, 2)
		case heartbeatMissing:
			out.Add(`<path class="m-lost" d="M`, strconv.Itoa(min(x, s.Width-8)),
				` 5l7 8m0-8l-7 8"/>`)
			return Fragment(out.String())
		}
	}
	return Fragment(out.String())
}

// addHeartbeat adds a bar of a strip of heartbeats, from a height to its foot.
func addHeartbeat(out *markup.Builder, class string, x, y int) {
	out.Add(`<rect class="`, class, `" x="`, strconv.Itoa(x), `" y="`, strconv.Itoa(y), `" width="`,
		strconv.Itoa(heartbeatWidth), `" height="`, strconv.Itoa(heartbeatHeight-y), "\"/>\n")
}
