package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Contentions is how long jobs waited for each other within a window.
type Contentions struct {
	Now   time.Time `json:"now"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Sums  []WaitSum `json:"waits"` // longest total first
	// Cut lists in words what was left out.
	Cut []string `json:"cut"`

	Matrix Matrix             `json:"-"`
	Links  charts.WindowLinks `json:"-"`
	Length time.Duration      `json:"-"`

	Resource string `json:"-"`
}

// WaitSum is how long one job waited for another on one resource.
type WaitSum struct {
	storage.WaitSummary
	Waited  float64 `json:"waited_seconds"`
	Longest float64 `json:"longest_seconds"`
	Still   int     `json:"still"` // runs that wait now; the other numbers include them
}

// Wait returns the total waiting time.
func (c WaitSum) Wait() time.Duration { return c.WaitSummary.Waited }

// Most returns the longest wait.
func (c WaitSum) Most() time.Duration { return c.WaitSummary.Longest }

// ContentionParams are the parameters of the waits.
func ContentionParams() []string { return []string{"from", "until", "span", "resource"} }

// ContentionQuery are the parsed parameters of the page.
type ContentionQuery struct {
	window   charts.WindowQuery
	resource *locking.Resource
}

// ReadContentionQuery parses the parameters of the waits.
func ReadContentionQuery(p param.Set) (q ContentionQuery, err error) {
	if q.window, err = charts.ReadWindow(p, "24h"); err == nil {
		q.resource, err = p.Resource("resource")
	}
	return q, err
}

// Contentions sums up the waits within the window, including the current ones. If about is not nil,
// it returns only waits for related resources.
func (r *Reader) Contentions(ctx context.Context, now time.Time,
	q ContentionQuery) (Contentions, error) {
	w, about := q.window.At(now), q.resource
	c := Contentions{Now: now, From: w.From, Until: w.Until, Length: w.Until.Sub(w.From),
		Sums: []WaitSum{}, Cut: []string{}}
	known, err := r.waitSums(ctx, q.window, now)
	if err != nil {
		return c, err
	}
	sums := slices.Clone(known)
	times := 0
	for i := range sums {
		times += sums[i].Times
		sums[i].Resource = records.ResourceName(sums[i].Resource)
	}
	if times >= storage.MaxTallied {
		c.Cut = append(c.Cut, fmt.Sprintf("Only the newest %d waits of this time are counted",
			storage.MaxTallied))
	}
	if len(sums) == storage.MaxBatch {
		c.Cut = append(c.Cut, fmt.Sprintf("Only the %d longest sums are listed",
			storage.MaxBatch))
	}
	still := make(map[[3]string]int)
	if w.Live {
		waiting, err := r.Runs(ctx,
			storage.RunFilter{States: []jobs.State{jobs.Waiting}, Later: new(false),
				Limit: storage.MaxBatch})
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
		c.Sums = append(c.Sums, WaitSum{b, b.Waited.Seconds(), b.Longest.Seconds(),
			still[[3]string{b.Job, b.Holder, b.Resource}]})
	}
	return c, nil
}

// stillBlocked returns the wait of a waiting run so far, within the window.
func stillBlocked(run storage.Record, w charts.Window) (storage.WaitSummary, bool) {
	if run.BlockedBy == nil {
		return storage.WaitSummary{}, false
	}
	waited := w.Until.Sub(slices.MaxFunc([]time.Time{records.Since(run), w.From},
		time.Time.Compare))
	return storage.WaitSummary{
		Job: run.Job, Holder: run.BlockedBy.Holder.Job, Resource: run.BlockedBy.Resource, Times: 1,
		Waited: waited, Longest: waited, Last: w.Until,
	}, true
}

// Link adds the matrix and the links of the page.
func (c *Contentions) Link(p param.Set, q ContentionQuery) {
	c.Links = charts.NewWindowLinks(p, "/locks/contention", q.window, c.Now)
	c.Matrix, c.Resource = newMatrix(c.Sums), p.Get("resource")
}

// Summary names the job that blocked others longest.
func (c *Contentions) Summary() string {
	if len(c.Sums) == 0 {
		return "No run waited for another. Waits of less than a second are seldom recorded."
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
		words.Verb(times, "once", words.Count(times)+" times"), words.Took(total))
	if notRun > 0 {
		text += fmt.Sprintf(". %s without a start", words.Verb(notRun, "One wait ended",
			words.Count(notRun)+" waits ended"))
	}
	return text + fmt.Sprintf(". The main blocker was %s, for %s.",
		words.Cut(holderName(worst), 100), words.Took(most))
}

// Action returns the address of the form of the window.
func (c *Contentions) Action() string { return "/locks/contention" }

// DefaultSpan names the default window.
func (c *Contentions) DefaultSpan() string { return "day" }

// SumsShown returns the sums that the page lists.
func (c *Contentions) SumsShown() []WaitSum { return c.Sums[:min(len(c.Sums), shownSums)] }

// SumsMore returns the number of sums that the page does not list.
func (c *Contentions) SumsMore() int { return len(c.Sums) - len(c.SumsShown()) }
