package admin

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestWindows checks the time ranges that the parameters of pages select.
func TestWindows(t *testing.T) {
	handler := newServer(t, night()).Handler()
	for query, want := range map[string]int{
		"": 200, "?span=7d": 200, "?from=2026-03-14T02:00&until=2026-03-14T02:30": 200,
		"?from=2026-03-14T02:00": 200, "?until=2026-03-14T02:00&span=15m": 200,
		"?from=&until=&span=": 200, "?span=2h": 400, "?from=yesterday": 400,
		"?from=2026-03-14T02:00:00&until=2026-03-14T02:00:05": 400,
		"?from=2026-03-14T03:00&until=2026-03-14T02:00":       400,
		"?from=2026-01-01&until=2026-03-01":                   400, "?lane=1": 400,
		"?span=1h&span=6h": 400,
	} {
		for _, path := range []string{"/locks/timeline", "/locks/contention",
			"/api/v1/locks/timeline", "/api/v1/locks/contention"} {
			if reply := get(t, handler, path+query); reply.Code != want {
				t.Errorf("%s%s: %d, want %d: %s", path, query, reply.Code, want,
					words.Cut(reply.Body.String(), 300))
			}
		}
	}
}

// TestUpcomingConflicts checks two jobs that lock one table at each full hour, a third that starts
// during both, and one that conflicts with none of them.
func TestUpcomingConflicts(t *testing.T) {
	h := &history{now: noon, jobs: []storage.JobView{
		job("a", "0 * * * *", "orders"), job("b", "0 * * * *", "orders"),
		job("c", "1 */12 * * *", "public.*"), job("d", "0 * * * *", "mart.events"),
	}, typical: map[string]storage.Typical{
		"a": {Median: 30 * time.Second, Long: 90 * time.Second},
		"b": {Median: 10 * time.Second, Long: 10 * time.Second},
		"c": {Median: time.Second, Long: time.Second},
	}}
	o := options(h)
	o.LongestWait = func(job string, limit time.Duration) (time.Duration, bool) {
		return map[string]time.Duration{"b": time.Minute}[job], job == "b"
	}
	f, err := newServer(t, o).reader.lock.UpcomingConflicts(t.Context(), noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range f.Conflicts {
		got = append(got, fmt.Sprintf("%s meets %s on %s: %d, %d skipped; %d, %d skipped; %s",
			c.Job, c.Holder, c.Resource, c.Likely, c.Skips, c.Possible, c.PossibleSkips,
			c.Longest()))
	}
	want := []string{
		// b waits 30 s for a. If a takes 90 s, b reaches its longest wait and is skipped.
		"b meets a on public/orders: 24, 0 skipped; 24, 24 skipped; 1m30s",
		"c meets a on public/orders: 0, 0 skipped; 2, 0 skipped; 30s",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("conflicts are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if f.Jobs != 3 || f.ScheduledTimes != 24+24+2 ||
		f.Conflicts[0].First != noon.Truncate(time.Hour).Add(time.Hour) {
		t.Errorf("%d jobs with %d scheduled times, first at %s", f.Jobs, f.ScheduledTimes,
			f.Conflicts[0].First)
	}
}

// TestUpcomingConflictsOnSemaphores checks three jobs that use a semaphore of two slots at the same
// time.
func TestUpcomingConflictsOnSemaphores(t *testing.T) {
	h := &history{now: noon, typical: map[string]storage.Typical{}}
	api, err := locking.Slot("api")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b", "c"} {
		v := job(name, "0 5 * * *")
		v.Resources = append(v.Resources,
			locking.Request{Resource: api, Mode: locking.Slotted, Slots: 2})
		h.jobs = append(h.jobs, v)
		h.typical[name] = storage.Typical{Median: time.Duration(i+1) * time.Minute,
			Long: time.Duration(i+1) * time.Minute}
	}
	for name, share := range map[string]int{"readers": 2, "shared": 2} {
		v := job(name, "0 5 * * *", "orders")
		v.Resources[0].Mode = locking.Shared
		h.jobs, _ = append(h.jobs, v), share
	}
	f, err := newServer(t, options(h)).reader.lock.UpcomingConflicts(t.Context(), noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Conflicts) != 1 || f.Conflicts[0].Job != "c" || f.Conflicts[0].Holder != "a" ||
		f.Conflicts[0].Longest() != time.Minute || f.Jobs != 3 {
		t.Errorf("of %d jobs, conflicts are %+v", f.Jobs, f.Conflicts)
	}
}

// TestUpcomingConflictsAreBounded checks that the search ends at the maximum number of scheduled
// times and reports that it is truncated.
func TestUpcomingConflictsAreBounded(t *testing.T) {
	t.Parallel()
	o := rush()
	// The query for durations has a timeout of a second, which does not pass in the bubble.
	synctest.Test(t, func(t *testing.T) {
		f, err := newReader(o).lock.UpcomingConflicts(t.Context(), noon, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.ScheduledTimes != 50_000 || f.Jobs != 10_000 || !f.Truncated() ||
			len(f.Conflicts) != 1000 || len(f.Cut) != 2 {
			t.Errorf("got %d scheduled times of %d jobs, %d conflicts until %s, cut %q, "+
				"want 50000 of 10000, 1000 and two", f.ScheduledTimes, f.Jobs, len(f.Conflicts),
				f.Until, f.Cut)
		}
	})
}

// slowLengths is a history that takes half a second for each query for durations.
type slowLengths struct{ *history }

func (s slowLengths) Typical(ctx context.Context,
	names []string) (map[string]storage.Typical, error) {
	time.Sleep(time.Second / 2)
	return s.history.Typical(ctx, names)
}

// TestDurationsAreLoadedInSteps checks that a slow store gets several bounded queries for the
// durations of many jobs, and that the results are cached.
func TestDurationsAreLoadedInSteps(t *testing.T) {
	o := rush()
	h := o.Store.(*history)
	h.jobs = h.jobs[:500]
	o.Store = slowLengths{h}
	o.ScheduledTimes = func(_ string, from time.Time, n int) []time.Time {
		scheduledTimes := make([]time.Time, n)
		for i := range scheduledTimes {
			scheduledTimes[i] = from.Truncate(6 * time.Hour).Add(time.Duration(i+1) * 6 * time.Hour)
		}
		return scheduledTimes
	}
	synctest.Test(t, func(t *testing.T) {
		r := newReader(o)
		for i, want := range []string{"of 400 of 500 jobs are known so far", "", ""} {
			start := time.Now()
			f, err := r.lock.UpcomingConflicts(t.Context(),
				noon.Add(time.Duration(i)*time.Minute), nil)
			if err != nil {
				t.Fatal(err)
			}
			if cut := strings.Join(f.Cut, "; "); (want == "") != !strings.Contains(cut,
				"so far") || !strings.Contains(cut, want) {
				t.Errorf("question %d says %q, want %q", i, cut, want)
			}
			if took, most := time.Since(start),
				[]time.Duration{time.Second, time.Second / 2, 0}[i]; took != most {
				t.Errorf("question %d took %s, want %s", i, took, most)
			}
		}
	})
}

// contentionsOf returns the waits that the page shows for the parameters.
func contentionsOf(t *testing.T, o Options, values url.Values) locks.Contentions {
	t.Helper()
	p := param.Set{Values: values}
	q, err := locks.ReadContentionQuery(p)
	if err != nil {
		t.Fatal(err)
	}
	found, err := newServer(t, o).reader.lock.Contentions(t.Context(), noon, q)
	if err != nil {
		t.Fatal(err)
	}
	found.Link(p, q)
	return found
}

// TestContentionIncludesCurrentWaits checks waits that have ended together with current ones.
func TestContentionIncludesCurrentWaits(t *testing.T) {
	live := contentionsOf(t, night(), url.Values{"span": {"1h"}})
	first := live.Sums[0]
	if first.Job != "prune-orders" || first.Holder != "rollup-sales" || first.Still != 1 ||
		first.Times != 2 || first.Wait() != 44*time.Minute || first.Waited != 2640 {
		t.Errorf("the longest wait is %+v", first)
	}
	past := contentionsOf(t, night(), url.Values{"from": {ago(time.Hour).Format(time.RFC3339)},
		"until": {noon.Format(time.RFC3339)}})
	for _, s := range past.Sums {
		if s.Still != 0 {
			t.Errorf("of a time that is over, %+v waits still", s)
		}
	}
	some := contentionsOf(t, night(), url.Values{"span": {"1h"}, "resource": {"public/vendors"}})
	if len(some.Sums) != 1 || some.Sums[0].Job != "sync-vendors" {
		t.Errorf("about one table are %+v", some.Sums)
	}
	m := live.Matrix
	if m.Rows[0].Job != "prune-orders" || m.Holders[0] != "rollup-sales" ||
		m.Rows[0].Cells[0].Heat != 4 || m.Rows[0].Total != 44*time.Minute {
		t.Errorf("the matrix begins with %+v of %q", m.Rows[0], m.Holders)
	}
	many := contentionsOf(t, manyWaits(), nil).Matrix
	if len(many.Rows) != 20 || len(many.Holders) != 10 || many.MoreRows != 180 ||
		many.MoreCols != 30 {
		t.Errorf("%d rows and %d more, %d columns and %d more", len(many.Rows), many.MoreRows,
			len(many.Holders), many.MoreCols)
	}
}
