package admin

import (
	"cmp"
	"context"
	"fmt"
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

// The number of sums that the page lists. The JSON lists all of them.
const (
	matrixRows    = 20
	matrixColumns = 10
	shownSums     = 60
)

// contentions is how long jobs waited for each other within a window.
type contentions struct {
	Now   time.Time `json:"now"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Sums  []waitSum `json:"waits"` // longest total first
	// Cut lists in words what was left out.
	Cut []string `json:"cut"`

	Matrix matrix        `json:"-"`
	Links  windowLinks   `json:"-"`
	Length time.Duration `json:"-"`

	Resource string `json:"-"`
}

// waitSum is how long one job waited for another on one resource.
type waitSum struct {
	storage.WaitSummary
	Waited  float64 `json:"waited_seconds"`
	Longest float64 `json:"longest_seconds"`
	Still   int     `json:"still"` // runs that wait now; the other numbers include them
}

// Wait returns the total waiting time.
func (c waitSum) Wait() time.Duration { return c.WaitSummary.Waited }

// Most returns the longest wait.
func (c waitSum) Most() time.Duration { return c.WaitSummary.Longest }

func contentionParams() []string { return []string{"from", "until", "span", "resource"} }

// contentionQuery are the parsed parameters of the page.
type contentionQuery struct {
	window   windowQuery
	resource *locking.Resource
}

func readContentionQuery(p param.Set) (q contentionQuery, err error) {
	if q.window, err = readWindow(p, "24h"); err == nil {
		q.resource, err = p.Resource("resource")
	}
	return q, err
}

func (s *Server) contentionJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (contentions, error) {
		p, err := param.Read(r, contentionParams()...)
		if err != nil {
			return contentions{}, err
		}
		q, err := readContentionQuery(p)
		if err != nil {
			return contentions{}, err
		}
		now, err := s.reader.now(ctx)
		if err != nil {
			return contentions{}, err
		}
		return s.reader.contentions(ctx, now, q.window.at(now), q.resource)
	})
}

func (s *Server) contentionPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(contentionParams(), "refresh")...)
	var q contentionQuery
	if err == nil {
		q, err = readContentionQuery(p)
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[contentions]{
		template: "contention.html", section: "/locks", title: "Contention",
		jsonPath: p.With("/api/v1/locks/contention"),
		load: func(ctx context.Context, snap snapshot) (contentions, error) {
			window := q.window.at(snap.now)
			c, err := s.reader.contentions(ctx, snap.now, window, q.resource)
			c.Links, c.Resource = newWindowLinks(p, "/locks/contention", q.window, window),
				p.Get("resource")
			c.Matrix = newMatrix(c.Sums)
			return c, err
		},
	})
}

// contentions sums up the waits within the window, including the current ones. If about is not nil,
// it returns only waits for related resources.
func (r *reader) contentions(ctx context.Context, now time.Time, w window,
	about *locking.Resource) (contentions, error) {
	c := contentions{Now: now, From: w.From, Until: w.Until, Length: w.Until.Sub(w.From),
		Sums: []waitSum{}, Cut: []string{}}
	sums, err := r.store.WaitSummaries(ctx, w.From, w.Until)
	if err != nil {
		return c, fmt.Errorf("query waits: %w", err)
	}
	times := 0
	for i := range sums {
		times += sums[i].Times
		sums[i].Resource = resourceName(sums[i].Resource)
	}
	if times >= storage.MaxTallied {
		c.Cut = append(c.Cut, fmt.Sprintf("only the newest %d waits of this time are counted",
			storage.MaxTallied))
	}
	if len(sums) == storage.MaxBatch {
		c.Cut = append(c.Cut, fmt.Sprintf("only the %d longest sums are listed",
			storage.MaxBatch))
	}
	still := make(map[[3]string]int)
	if w.Live {
		waiting, err := r.runs(ctx,
			storage.RunFilter{States: []jobs.State{jobs.Waiting}, Limit: storage.MaxBatch})
		if err != nil {
			return c, err
		}
		for _, run := range waiting {
			if b, ok := stillBlocked(run, w); ok {
				sums = append(sums, b)
				still[[3]string{b.Job, b.Holder, b.Resource}]++
			}
		}
	}
	for _, b := range storage.MergeWaitSummaries(sums) {
		if resource, err := locking.ParseDisplay(b.Resource); about != nil &&
			(err != nil || !resource.Related(*about)) {
			continue
		}
		b.Last = b.Last.UTC()
		c.Sums = append(c.Sums, waitSum{b, b.Waited.Seconds(), b.Longest.Seconds(),
			still[[3]string{b.Job, b.Holder, b.Resource}]})
	}
	return c, nil
}

// stillBlocked returns the wait of a waiting run so far, within the window.
func stillBlocked(run jobs.Record, w window) (storage.WaitSummary, bool) {
	if run.BlockedBy == nil {
		return storage.WaitSummary{}, false
	}
	waited := w.Until.Sub(maxTime(since(run), w.From))
	return storage.WaitSummary{
		Job: run.Job, Holder: run.BlockedBy.Holder.Job, Resource: run.BlockedBy.Resource, Times: 1,
		Waited: waited, Longest: waited, Last: w.Until,
	}, true
}

// Summary names the job that blocked others longest.
func (c *contentions) Summary() string {
	if len(c.Sums) == 0 {
		return "No run waited for another. Waits of less than a second are not recorded."
	}
	var total time.Duration
	var times, notRun int
	by := make(map[string]time.Duration)
	for _, s := range c.Sums {
		total, times, notRun = total+s.Wait(), times+s.Times, notRun+s.NotRun
		by[s.Holder] += s.Wait()
	}
	worst, most := "", time.Duration(-1)
	for holder, length := range by {
		if length > most || length == most && holder < worst {
			worst, most = holder, length
		}
	}
	text := fmt.Sprintf("Runs waited for others %s, %s in total",
		words.Verb(times, "once", fmt.Sprintf("%d times", times)), words.Took(total))
	if notRun > 0 {
		text += fmt.Sprintf("; %s without a start",
			words.Verb(notRun, "once", fmt.Sprintf("%d times", notRun)))
	}
	return text + fmt.Sprintf(". The main blocker, for %s of it: %s.", words.Took(most),
		words.Cut(holderName(worst), 100))
}

func holderName(job string) string { return cmp.Or(job, "a program") }

// Action returns the address of the form of the window.
func (c *contentions) Action() string { return "/locks/contention" }

// DefaultSpan names the default window.
func (c *contentions) DefaultSpan() string { return "day" }

// SumsShown returns the sums that the page lists.
func (c *contentions) SumsShown() []waitSum { return c.Sums[:min(len(c.Sums), shownSums)] }

// SumsMore returns the number of sums that the page does not list.
func (c *contentions) SumsMore() int { return len(c.Sums) - len(c.SumsShown()) }

// matrix is the waiting time by waiting job and blocking job, over all resources.
type matrix struct {
	Holders  []string // the columns, longest blocking time first
	Rows     []matrixRow
	MoreRows int // jobs that waited, without a row
	MoreCols int // jobs that blocked, without a column
}

type matrixRow struct {
	Job   string
	Cells []matrixCell
	Other time.Duration // sum of the jobs without a column
	Total time.Duration
}

// matrixCell is how long one job waited for another.
type matrixCell struct {
	Holder string
	Times  int
	NotRun int
	Wait   time.Duration
	Heat   int // 0 to 4, relative to the largest cell
	Title  string
}

func newMatrix(sums []waitSum) matrix {
	waited, blocked := make(map[string]time.Duration), make(map[string]time.Duration)
	cells := make(map[[2]string]*matrixCell)
	var worst time.Duration
	for _, s := range sums {
		waited[s.Job] += s.Wait()
		blocked[s.Holder] += s.Wait()
		cell := cells[[2]string{s.Job, s.Holder}]
		if cell == nil {
			cell = &matrixCell{Holder: s.Holder}
			cells[[2]string{s.Job, s.Holder}] = cell
		}
		cell.Times, cell.NotRun, cell.Wait = cell.Times+s.Times, cell.NotRun+s.NotRun,
			cell.Wait+s.Wait()
		worst = max(worst, cell.Wait)
	}
	names, holders := byDuration(waited), byDuration(blocked)
	m := matrix{Holders: holders[:min(len(holders), matrixColumns)],
		MoreRows: max(0, len(names)-matrixRows), MoreCols: max(0, len(holders)-matrixColumns)}
	for _, name := range names[:min(len(names), matrixRows)] {
		row := matrixRow{Job: name, Total: waited[name], Other: waited[name]}
		for _, holder := range m.Holders {
			cell := cells[[2]string{name, holder}]
			if cell == nil {
				cell = &matrixCell{Holder: holder}
			}
			row.Other -= cell.Wait
			row.Cells = append(row.Cells, cell.finished(name, worst))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func (c *matrixCell) finished(job string, worst time.Duration) matrixCell {
	const hottest = 4
	if c.Times > 0 {
		c.Heat = 1
		if worst > 0 {
			c.Heat = 1 + int(float64(c.Wait)/float64(worst)*(hottest-1)+0.5)
		}
		c.Title = fmt.Sprintf("%s waited for %s %s, %s in total", words.Cut(job, 80),
			words.Cut(holderName(c.Holder), 80), words.Figure(c.Times, "time", "times"),
			words.Took(c.Wait))
		if c.NotRun > 0 {
			c.Title += fmt.Sprintf(", %s without a start", words.Figure(c.NotRun, "time", "times"))
		}
	}
	return *c
}

// byDuration sorts names by their durations, longest first.
func byDuration(durations map[string]time.Duration) []string {
	names := make([]string, 0, len(durations))
	for name := range durations {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(durations[b], durations[a]), strings.Compare(a, b))
	})
	return names
}
