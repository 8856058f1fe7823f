package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Limits of one timeline.
const (
	shownLanes    = 16
	maxDrawnRuns  = 6000
	minRunsPerJob = 6
)

// timeline is the runs, waits and skips within a window, by resource.
type timeline struct {
	Now   time.Time `json:"now"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// held or waited-for resources first, then those with the longest waits
	Lanes    []lane            `json:"resources"`
	Restarts []storage.Restart `json:"restarts"` // of the memcached servers
	Cut      []string          `json:"cut"`      // what is left out, in words
	Known    int               `json:"resources_known"`

	Chart    *chart        `json:"-"`
	Links    windowLinks   `json:"-"`
	Pager    param.Pager   `json:"-"`
	Resource string        `json:"-"`
	Length   time.Duration `json:"-"`

	lanePath func(resource string) string
}

// lane is one resource, and the runs that lock it or an ancestor.
type lane struct {
	Resource string                `json:"resource"`
	Jobs     int                   `json:"jobs"` // number of jobs that lock it
	Held     int                   `json:"held"` // current number of locks
	Waiting  int                   `json:"waiting"`
	Runs     []storage.RunInterval `json:"runs"` // newest first

	resource locking.Resource
	jobs     []string
	waited   time.Duration
}

func timelineParams() []string { return []string{"from", "until", "span", "resource", "skip"} }

// timelineQuery are the parsed parameters of a timeline.
type timelineQuery struct {
	window   windowQuery
	resource *locking.Resource
	skip     int // lanes
}

func readTimelineQuery(p param.Set) (q timelineQuery, err error) {
	if q.window, err = readWindow(p, "1h"); err != nil {
		return q, err
	}
	if q.resource, err = p.Resource("resource"); err != nil {
		return q, err
	}
	q.skip, err = p.Skip()
	return q, err
}

func (s *Server) timelineJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (timeline, error) {
		p, err := param.Read(r, timelineParams()...)
		if err != nil {
			return timeline{}, err
		}
		q, err := readTimelineQuery(p)
		if err != nil {
			return timeline{}, err
		}
		now, err := s.reader.now(ctx)
		if err != nil {
			return timeline{}, err
		}
		t, err := s.reader.timeline(ctx, now, q)
		param.SetLinks(w, p.SkipPager("/api/v1/locks/timeline", q.skip, shownLanes, t.Known))
		return t, err
	})
}

func (s *Server) timelinePage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(timelineParams(), "refresh")...)
	var q timelineQuery
	if err == nil {
		q, err = readTimelineQuery(p)
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	live := q.window.from.IsZero() && q.window.until.IsZero()
	show(s, w, r, page[timeline]{
		template: "timeline.html", section: "/locks", title: "Timeline of locks",
		jsonPath: p.With("/api/v1/locks/timeline"), live: live,
		topics: []storage.Topic{storage.TopicRuns, storage.TopicLocks},
		load: func(ctx context.Context, snap snapshot) (timeline, error) {
			t, err := s.reader.timeline(ctx, snap.now, q)
			if err != nil {
				return t, err
			}
			t.Links = newWindowLinks(p, "/locks/timeline", q.window, q.window.at(snap.now))
			t.Pager = p.SkipPager("/locks/timeline", q.skip, shownLanes, t.Known)
			t.Resource = p.Get("resource")
			t.lanePath = func(resource string) string {
				return p.With("/locks/timeline", "resource", resource, "skip", "")
			}
			t.Chart = newChart(&t, func(from, until time.Time) string {
				return p.With("/locks/timeline", "from", from.Format(time.RFC3339), "until",
					until.Format(time.RFC3339), "span", "")
			})
			return t, nil
		},
	})
}

// timeline queries the timeline.
func (r *reader) timeline(ctx context.Context, now time.Time, q timelineQuery) (timeline, error) {
	w := q.window.at(now)
	t := timeline{Now: now, From: w.From, Until: w.Until, Length: w.Until.Sub(w.From),
		Restarts: []storage.Restart{}, Cut: []string{}}
	all, err := r.lanes(ctx, now, w, q.resource)
	if err != nil {
		return t, err
	}
	t.Known = len(all)
	t.Lanes = all[min(q.skip, len(all)):min(q.skip+shownLanes, len(all))]
	if err := r.fill(ctx, &t); err != nil {
		return t, err
	}
	if r.restarts != nil {
		if t.Restarts, err = r.restarts.Restarts(ctx, w.From, w.Until); err != nil {
			return t, fmt.Errorf("restarts: %w", err)
		}
		if t.Restarts == nil {
			t.Restarts = []storage.Restart{}
		}
	}
	return t, nil
}

// lanes returns the resources that jobs name or runs hold: held or waited-for ones first, then
// those with the longest waits within the window, then by name.
func (r *reader) lanes(ctx context.Context, now time.Time, w window,
	about *locking.Resource) ([]lane, error) {
	lockers, err := r.lockers.get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("query locked resources: %w", err)
	}
	set, err := r.grants(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := r.runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting},
		Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	sums, err := r.store.WaitSummaries(ctx, w.From, w.Until)
	if err != nil {
		return nil, fmt.Errorf("query waits: %w", err)
	}
	by := make(map[locking.Resource]*lane)
	find := func(resource locking.Resource) *lane {
		if by[resource] == nil {
			by[resource] = &lane{Resource: resource.String(), resource: resource,
				Runs: []storage.RunInterval{}}
		}
		return by[resource]
	}
	for _, locker := range lockers {
		for _, request := range locker.Requests {
			l := find(request.Resource)
			l.jobs = append(l.jobs, locker.Job)
		}
	}
	for _, lock := range set.locks {
		find(lock.resource).Held++
	}
	for _, run := range waiting {
		if resource, ok := blockedOn(run); ok && by[resource] != nil {
			by[resource].Waiting++
		}
	}
	for _, sum := range sums {
		if resource, err := locking.ParseDisplay(sum.Resource); err == nil && by[resource] != nil {
			by[resource].waited += sum.Waited
		}
	}
	return sortedLanes(by, about), nil
}

// sortedLanes returns the lanes with the jobs that lock them or an ancestor. If about is not nil,
// it returns only related resources.
func sortedLanes(by map[locking.Resource]*lane, about *locking.Resource) []lane {
	lanes := make([]lane, 0, len(by))
	for resource, l := range by {
		if about != nil && !resource.Related(*about) {
			continue
		}
		one := *l
		one.jobs = slices.Clone(l.jobs)
		for _, above := range resource.Ancestors() {
			if by[above] != nil {
				one.jobs = append(one.jobs, by[above].jobs...)
			}
		}
		slices.Sort(one.jobs)
		one.jobs = slices.Compact(one.jobs)
		one.Jobs = len(one.jobs)
		lanes = append(lanes, one)
	}
	slices.SortFunc(lanes, func(a, b lane) int {
		return cmp.Or(cmp.Compare(a.rank(about), b.rank(about)), cmp.Compare(b.waited, a.waited),
			byKind(a.resource, b.resource))
	})
	return lanes
}

func (l *lane) rank(about *locking.Resource) int {
	switch {
	case about != nil && l.resource == *about:
		return 0
	case l.Waiting > 0:
		return 1
	case l.Held > 0:
		return 2
	}
	return 3
}

// fill queries the runs of the lanes' jobs, up to maxDrawnRuns.
func (r *reader) fill(ctx context.Context, t *timeline) error {
	names := make(map[string]bool)
	for i := range t.Lanes {
		l := &t.Lanes[i]
		room := storage.MaxBatch - len(names)
		if fresh := countNew(names, l.jobs); fresh > room {
			t.Cut = append(t.Cut,
				fmt.Sprintf("%s is locked by %d jobs, of which only some are drawn",
					words.Cut(l.Resource, 100), l.Jobs))
			l.jobs = l.jobs[:min(len(l.jobs), room)]
		}
		for _, name := range l.jobs {
			names[name] = true
		}
	}
	of, full, err := r.timelineRuns(ctx, t, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return err
	}
	t.noteOmitted(of, full)
	for i := range t.Lanes {
		l := &t.Lanes[i]
		for _, name := range l.jobs {
			l.Runs = append(l.Runs, of[name]...)
		}
		slices.SortFunc(l.Runs, func(a, b storage.RunInterval) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt),
				cmp.Compare(a.Run.String(), b.Run.String()))
		})
	}
	return nil
}

// timelineRuns queries the same number of runs for each job, then more for jobs that have more. It
// also returns the jobs that have still more.
func (r *reader) timelineRuns(ctx context.Context, t *timeline,
	names []string) (of map[string][]storage.RunInterval, full []string, err error) {
	of = make(map[string][]storage.RunInterval)
	room, asked := maxDrawnRuns, names
	for range 2 {
		if len(asked) == 0 {
			break
		}
		each := min(storage.MaxRunIntervals, max(minRunsPerJob, room/len(asked)))
		found, err := r.store.RunIntervals(ctx,
			storage.RunIntervalFilter{Jobs: asked, From: t.From, Until: t.Until, Each: each})
		if err != nil {
			return nil, nil, fmt.Errorf("query runs of the window: %w", err)
		}
		for _, name := range asked {
			delete(of, name)
		}
		within := make(map[string]int)
		for _, s := range found {
			of[s.Job] = append(of[s.Job], plainTimelineRun(s))
			if !s.CreatedAt.Before(t.From) {
				within[s.Job]++
			}
		}
		full = nil
		for _, name := range asked {
			if within[name] < each {
				room -= within[name]
			} else {
				full = append(full, name)
			}
		}
		if len(full) > 0 && room/len(full) <= each {
			break
		}
		asked = full
	}
	return of, full, nil
}

func countNew(known map[string]bool, names []string) (n int) {
	for _, name := range names {
		if !known[name] {
			n++
		}
	}
	return n
}

// noteOmitted notes the jobs that have more runs than were queried.
func (t *timeline) noteOmitted(of map[string][]storage.RunInterval, full []string) {
	const named = 3
	for _, name := range full[:min(len(full), named)] {
		first := t.Until
		for _, s := range of[name] {
			if s.CreatedAt.Before(first) && !s.CreatedAt.Before(t.From) {
				first = s.CreatedAt
			}
		}
		t.Cut = append(t.Cut, fmt.Sprintf("of %s only the newest %d runs are drawn, since %s: "+
			"zoom in to see earlier ones", words.Cut(name, 60), len(of[name]), words.UTC(first)))
	}
	if more := len(full) - named; more > 0 {
		t.Cut = append(t.Cut, fmt.Sprintf("of %s not all runs are drawn",
			words.Figure(more, "more job", "more jobs")))
	}
}

// plainTimelineRun returns a run with times in UTC and display names, so that all replicas show the
// same.
func plainTimelineRun(s storage.RunInterval) storage.RunInterval {
	s.ScheduledAt, s.CreatedAt, s.StartedAt, s.FinishedAt = s.ScheduledAt.UTC(), s.CreatedAt.UTC(),
		inUTC(s.StartedAt), inUTC(s.FinishedAt)
	if s.BlockedBy != nil {
		s.BlockedBy = plainBlocker(s.BlockedBy)
	}
	return s
}

// Action returns the address of the form of the window.
func (t *timeline) Action() string { return "/locks/timeline" }

// DefaultSpan names the default window.
func (t *timeline) DefaultSpan() string { return "hour" }

// LanePath returns the address of the same window for one resource.
func (t *timeline) LanePath(resource string) string { return t.lanePath(resource) }

// Notes lists what the picture leaves out.
func (t *timeline) Notes() []string {
	var notes []string
	if n := t.Chart.Merged; n > 0 {
		notes = append(notes, fmt.Sprintf("%d runs are too short for this scale and are drawn as "+
			"merged bars. Zoom in to see them.", n))
	}
	if n := t.Chart.Overlapping; n > 0 {
		notes = append(notes, fmt.Sprintf("%d runs overlap, because too many ran at the same time.",
			n))
	}
	for _, text := range t.Cut {
		notes = append(notes, words.Sentence(words.Title(text)))
	}
	if more := t.Known - len(t.Lanes); more > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d resources are drawn: those that are held or "+
			"waited for come first, then those with the longest waits.", len(t.Lanes), t.Known))
	}
	return notes
}

// maxListedRuns is the number of runs in the list beside the picture.
const maxListedRuns = 100

// listedRun is a run in words.
type listedRun struct {
	storage.RunInterval
	Words string
}

// Listed returns the newest runs of the picture, each once.
func (t *timeline) Listed() []listedRun {
	seen := make(map[string]bool)
	var all []listedRun
	for _, l := range t.Lanes {
		for _, s := range l.Runs[:min(len(l.Runs), maxListedRuns)] {
			if seen[s.Run.String()] {
				continue
			}
			seen[s.Run.String()] = true
			all = append(all, listedRun{RunInterval: s})
		}
	}
	slices.SortStableFunc(all, func(a, b listedRun) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	all = all[:min(len(all), maxListedRuns)]
	for i := range all {
		all[i].Words = runWords(all[i].RunInterval, t.Now)
	}
	return all
}

// runWords describes how long a run waited and ran, and why.
func runWords(s storage.RunInterval, now time.Time) string {
	end := now
	switch {
	case s.FinishedAt != nil:
		end = *s.FinishedAt
	case s.State.Final():
		end = s.CreatedAt
	}
	waited := end
	if s.StartedAt != nil {
		waited = *s.StartedAt
	}
	var parts []string
	if length := waited.Sub(s.CreatedAt); length >= time.Second {
		parts = append(parts, "waited "+words.Took(length))
	}
	if s.StartedAt != nil {
		length := jobs.Executed(waited, end, s.Rests)
		parts = append(parts, "ran "+words.Took(length))
		if rested := end.Sub(waited) - length; rested > 0 {
			parts = append(parts, "waited "+words.Took(rested)+" between attempts")
		}
	}
	if words := whyOf(s); words != "" {
		parts = append(parts, words)
	}
	return strings.Join(parts, ", ")
}
