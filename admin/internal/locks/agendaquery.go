package locks

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// AgendaQuery selects the time and the jobs of an agenda.
type AgendaQuery struct {
	Span      charts.WindowSpan
	Text      string // part of the name of a job, or of a resource that it locks
	Conflicts bool   // only jobs that are expected to wait
	Skip      int
}

// DefaultAgendaSpan is the name of the span without a parameter.
const DefaultAgendaSpan = "24h"

// AgendaSpans returns the spans to choose.
func AgendaSpans() []charts.WindowSpan {
	return []charts.WindowSpan{{Name: "1h", Words: "1 h", Length: time.Hour},
		{Name: "6h", Words: "6 h", Length: 6 * time.Hour},
		{Name: "24h", Words: "24 h", Length: 24 * time.Hour},
		{Name: "7d", Words: "7 days", Length: 7 * 24 * time.Hour}}
}

// AgendaParams are the parameters of an agenda.
func AgendaParams() []string { return []string{"span", "text", "conflicts", "skip"} }

// ReadAgendaQuery parses the parameters of an agenda.
func ReadAgendaQuery(p param.Set) (q AgendaQuery, err error) {
	asked := p.Get("span")
	if asked == "" {
		asked = DefaultAgendaSpan
	}
	var names []string
	for _, s := range AgendaSpans() {
		names = append(names, s.Name)
		if s.Name == asked {
			q.Span = s
		}
	}
	if q.Span.Length == 0 {
		return q, param.Errorf("span is %q, expected one of %s", words.Cut(asked, 100),
			words.List(names))
	}
	if q.Text, err = p.Text("text"); err != nil {
		return q, err
	}
	conflicts, err := param.OneOf(p, "conflicts", []string{"yes"})
	if err != nil {
		return q, err
	}
	q.Conflicts = conflicts != ""
	q.Skip, err = p.Skip()
	return q, err
}

// Any reports whether jobs are filtered.
func (q AgendaQuery) Any() bool { return q.Text != "" || q.Conflicts }

// PagerOf links the pages of jobs.
func (a *Agenda) PagerOf(p param.Set, path string) param.Pager {
	return p.SkipPager(path, a.Query.Skip, agendaPage, a.Listed)
}

// Draw adds the chart and the links of the page.
func (a *Agenda) Draw(p param.Set, path string) {
	for _, s := range AgendaSpans() {
		a.Spans = append(a.Spans, Tab{p.With(path, "span", s.Name, "skip", ""), s.Words,
			s.Name == a.Query.Span.Name})
	}
	a.Pager = a.PagerOf(p, path)
	a.linkHours(p, path)
	if len(a.Entries) == 0 {
		return
	}
	lanes := make([]charts.AgendaLane, len(a.Entries))
	for i, j := range a.Entries {
		lanes[i] = charts.AgendaLane{Job: j.Job, First: j.First, Last: j.Last,
			Firings: j.Firings, Usual: j.typical.Median, Long: j.typical.Long,
			Paused: j.Paused, Heads: a.Heading(i) != ""}
		for _, f := range j.Times {
			lanes[i].Times = append(lanes[i].Times, charts.ExpectedFiring{
				ScheduledAt: f.ScheduledAt, StartsAt: f.StartsAt, WaitsFor: f.WaitsFor,
				Resource: f.Resource, Skipped: f.Skipped})
		}
	}
	firings, waits := make([]int, len(a.Intervals)), make([]int, len(a.Intervals))
	for i, interval := range a.Intervals {
		firings[i], waits[i] = interval.Firings, interval.Waits
	}
	a.Chart = charts.NewAgenda(a.From, a.Until, lanes, firings, waits)
}

// Heading returns the heading above an entry, or "" if it is in the band of the entry before it.
func (a *Agenda) Heading(i int) string {
	if i > 0 && a.Entries[i-1].Band == a.Entries[i].Band {
		return ""
	}
	return a.Entries[i].Band.Words()
}
