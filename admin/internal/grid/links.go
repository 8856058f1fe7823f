package grid

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

// Links are addresses of the grid at other times.
type Links struct {
	Spans          []Link
	Onlys          []Link            // choices of outcomes
	Groups         map[string]string // of the groups on the page, by name
	Toggles        map[string]string // that unfold or fold a family, by its first job on the page
	Earlier, Later string            // Later is "" if the grid ends now
}

// Link is a span or another choice.
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
	for _, o := range Onlys() {
		g.Links.Onlys = append(g.Links.Onlys, Link{o.Words,
			p.With(path, "only", o.Name, "after", "", "before", ""), o.Name == q.only.Name})
	}
	g.Links.Groups = make(map[string]string)
	for _, row := range g.Rows {
		if row.Group != "" {
			g.Links.Groups[row.Group] = p.With(path, "group", row.Group, "after", "", "before", "")
		}
	}
	g.Links.Toggles = make(map[string]string)
	for _, f := range g.Families {
		open := f.Jobs[0]
		if slices.Contains(f.Jobs, g.open) {
			open = ""
		}
		g.Links.Toggles[f.Jobs[0]] = p.With(path, "open", open)
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
