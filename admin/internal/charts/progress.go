package charts

import (
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Progress is a bar of the scheduled times of a backfill, by what became of them.
type Progress struct {
	Parts  []ProgressPart // those with scheduled times
	Width  int
	Height int
	Words  string // the number of all scheduled times
}

// ProgressPart is a part of the scheduled times.
type ProgressPart struct {
	X, W  int
	Count int
	Class string
	Words string
}

// The dimensions of a bar. The page stretches its width. A part with few scheduled times has the
// least width, so that one unsuccessful run among thousands is visible.
const (
	progressWidth  = 1000
	progressHeight = 10
	leastPart      = 12
)

// NewProgress draws the progress of a backfill.
func NewProgress(b storage.Backfill) Progress {
	left := "still to do"
	if b.State != storage.BackfillActive {
		left = "not handled"
	}
	all := []ProgressPart{
		{Count: b.LeftOut, Class: "cancelled", Words: "left out"},
		{Count: b.Succeeded, Class: "succeeded", Words: "succeeded"},
		{Count: b.Unsuccessful, Class: "failed", Words: "unsuccessful"},
		{Count: b.Unfinished(), Class: "running", Words: "running or waiting"},
		{Count: max(0, b.Times-b.LeftOut-b.Runs), Class: "todo", Words: left},
	}
	p := Progress{Width: progressWidth, Height: progressHeight,
		Words: words.Figure(b.Times, "scheduled time", "scheduled times")}
	for _, part := range all {
		if part.Count > 0 {
			p.Parts = append(p.Parts, part)
		}
	}
	p.layOut(max(1, b.Times))
	return p
}

// layOut gives each part its width. The widest part gives way to parts of the least width.
func (p *Progress) layOut(times int) {
	if len(p.Parts) == 0 {
		return
	}
	total, widest := 0, 0
	for i := range p.Parts {
		part := &p.Parts[i]
		part.W = max(leastPart, part.Count*p.Width/times)
		if total += part.W; part.W > p.Parts[widest].W {
			widest = i
		}
	}
	p.Parts[widest].W += p.Width - total
	x := 0
	for i := range p.Parts {
		p.Parts[i].X = x
		x += p.Parts[i].W
	}
}
