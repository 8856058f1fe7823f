package grid

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

// Links are addresses of the grid at other times.
type Links struct {
	Spans          []Link
	Earlier, Later string // Later is "" if the grid ends now
}

// Link is a span to choose.
type Link struct {
	Words, Path string
	Here        bool
}

// Link adds the addresses of the grid with other parameters.
func (g *Grid) Link(p param.Set, path string, q Query, now time.Time) {
	for _, s := range Spans() {
		g.Links.Spans = append(g.Links.Spans, Link{s.Words, p.With(path, "span", s.Name),
			s.Name == q.span.Name})
	}
	g.Links.Earlier = p.With(path, "until", g.From.Format(time.RFC3339))
	if q.Live() {
		return
	}
	if later := g.Until.Add(q.span.Length); later.Before(now) {
		g.Links.Later = p.With(path, "until", later.Format(time.RFC3339))
	} else {
		g.Links.Later = p.With(path, "until", "")
	}
}
