package locks

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Limits of one timeline.
const (
	shownLanes    = 16
	maxDrawnRuns  = 1500
	minRunsPerJob = 2
)

// Timeline is the runs, waits and skips within a window, by resource.
type Timeline struct {
	Now   time.Time `json:"now"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// held or waited-for resources first, then those with the longest waits
	Lanes    []Lane            `json:"resources"`
	Restarts []storage.Restart `json:"restarts"` // of the memcached servers
	// replicas that were lost while they ran runs of these resources
	Losses []charts.Loss `json:"lost_replicas"`
	Cut    []string      `json:"cut"` // what is left out, in words
	Known  int           `json:"resources_known"`

	Chart    *charts.Chart      `json:"-"`
	Links    charts.WindowLinks `json:"-"`
	Pager    param.Pager        `json:"-"`
	Resource string             `json:"-"`
	Length   time.Duration      `json:"-"`
	// News is the number of waited-for resources that the page does not show, because it keeps to
	// those that it showed before.
	News int `json:"-"`

	lanePath func(resource string) string
}

// TimelineParams are the parameters of a timeline.
func TimelineParams() []string { return []string{"from", "until", "span", "resource", "skip"} }

// TimelineQuery are the parsed parameters of a timeline.
type TimelineQuery struct {
	window   charts.WindowQuery
	resource *locking.Resource
	skip     int        // lanes
	kept     []keptLane // of an open page
}

// ReadTimelineQuery parses the parameters of a timeline.
func ReadTimelineQuery(p param.Set) (q TimelineQuery, err error) {
	if q.window, err = charts.ReadWindow(p, "1h"); err != nil {
		return q, err
	}
	if q.resource, err = p.Resource("resource"); err != nil {
		return q, err
	}
	q.skip, err = p.Skip()
	return q, err
}

// Timeline queries the timeline.
func (r *Reader) Timeline(ctx context.Context, now time.Time, q TimelineQuery) (Timeline, error) {
	w := q.window.At(now)
	t := Timeline{Now: now, From: w.From, Until: w.Until, Length: w.Until.Sub(w.From),
		Restarts: []storage.Restart{}, Losses: []charts.Loss{}, Cut: []string{}}
	all, err := r.lanes(ctx, now, q)
	if err != nil {
		return t, err
	}
	t.Known = len(all)
	t.Lanes, t.News = q.choose(all)
	if err := r.fill(ctx, &t); err != nil {
		return t, err
	}
	t.Losses = append(t.Losses, charts.LossesOf(t.runs(), t.From, t.Until)...)
	if r.Restarts != nil {
		if t.Restarts, err = r.Restarts.Restarts(ctx, w.From, w.Until); err != nil {
			return t, fmt.Errorf("restarts: %w", err)
		}
		if t.Restarts == nil {
			t.Restarts = []storage.Restart{}
		}
	}
	return t, nil
}

// noteOmitted notes the jobs that have more runs than were queried.
func (t *Timeline) noteOmitted(of map[string][]storage.RunInterval, full []string) {
	const named = 3
	for _, name := range full[:min(len(full), named)] {
		first := t.Until
		for _, s := range of[name] {
			if s.CreatedAt.Before(first) && !s.CreatedAt.Before(t.From) {
				first = s.CreatedAt
			}
		}
		t.Cut = append(t.Cut, fmt.Sprintf("Of %s only the newest %d runs are drawn, since %s: "+
			"zoom in to see earlier ones", words.Cut(name, 60), len(of[name]), words.UTC(first)))
	}
	if more := len(full) - named; more > 0 {
		t.Cut = append(t.Cut, fmt.Sprintf("Of %s not all runs are drawn",
			words.PlainFigure(more, "more job", "more jobs")))
	}
}

// Live reports whether the timeline ends now.
func (q TimelineQuery) Live() bool { return q.window.Live() }

// PagerOf links the lanes around those of the timeline.
func (t *Timeline) PagerOf(p param.Set, path string, q TimelineQuery) param.Pager {
	return p.SkipPager(path, q.skip, shownLanes, t.Known)
}

// Draw adds the chart and the links of the page.
func (t *Timeline) Draw(p param.Set, q TimelineQuery) {
	const path = "/locks/timeline"
	t.Links = charts.NewWindowLinks(p, path, q.window, t.Now)
	t.Pager, t.Resource = t.PagerOf(p, path, q), p.Get("resource")
	t.lanePath = func(resource string) string {
		return p.With(path, "resource", resource, "skip", "")
	}
	drawn := charts.Picture{Now: t.Now, From: t.From, Until: t.Until, Restarts: t.Restarts,
		Heights: q.heights(t.Lanes),
		Zoom: func(from, until time.Time) string {
			return p.With(path, "from", from.Format(time.RFC3339), "until",
				until.Format(time.RFC3339), "span", "")
		}}
	drawn.Lanes, drawn.Losses = t.runs(), t.Losses
	t.Chart = charts.New(drawn)
}

// runs returns the runs of each lane.
func (t *Timeline) runs() [][]storage.RunInterval {
	runs := make([][]storage.RunInterval, len(t.Lanes))
	for i := range t.Lanes {
		runs[i] = t.Lanes[i].Runs
	}
	return runs
}

// Action returns the address of the form of the window.
func (t *Timeline) Action() string { return "/locks/timeline" }

// DefaultSpan names the default window.
func (t *Timeline) DefaultSpan() string { return "hour" }

// LanePath returns the address of the same window for one resource.
func (t *Timeline) LanePath(resource string) string { return t.lanePath(resource) }

// Notes lists what the picture leaves out.
func (t *Timeline) Notes() []string {
	var notes []string
	if n := t.Chart.Merged; n > 0 {
		notes = append(notes, words.Count(n)+" runs are too short for this scale and are drawn as "+
			"merged bars. Zoom in to see them.")
	}
	if n := t.Chart.Overlapping; n > 0 {
		notes = append(notes, words.Figure(n, "run overlaps", "runs overlap")+
			", because too many ran at the same time.")
	}
	for _, text := range t.Cut {
		notes = append(notes, words.Sentence(words.Title(words.Grouped(text))))
	}
	return notes
}

// TimelinePath returns the address of the timeline of one resource, by its display name.
func TimelinePath(resource string) string {
	return param.Address("/locks/timeline", url.Values{"resource": {resource}})
}
