package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// drawn writes a chart as text: each bar's row, place, width and class.
func drawn(t *testing.T, l lane, length time.Duration, restarts ...storage.Restart) (*chart, string) {
	t.Helper()
	tl := &timeline{Now: noon, From: noon.Add(-length), Until: noon, Lanes: []lane{l},
		Restarts: restarts, Known: 1}
	c := newChart(tl, func(from, until time.Time) string {
		return fmt.Sprintf("/zoom/%s/%s", from.Format("150405"), until.Format("150405"))
	})
	var out strings.Builder
	one := c.Lanes[0]
	for _, b := range one.Bars {
		fmt.Fprintf(&out, "%d %s+%s %s", (b.Y-one.BarsY)/rowHeight, b.X, b.W, b.Class)
		if b.Several() > 0 {
			fmt.Fprintf(&out, " of %d", b.Several())
		}
		out.WriteString("\n")
	}
	for _, m := range one.Marks {
		fmt.Fprintf(&out, "mark %s %s", m.X, m.Class)
		if m.Several() > 0 {
			fmt.Fprintf(&out, " of %d", m.Several())
		}
		out.WriteString("\n")
	}
	return c, out.String()
}

// ran is a run that waited, ran and ended; counted in seconds before noon.
func ran(n int, state jobs.State, created, started, finished int) storage.RunInterval {
	at := func(second int) time.Time { return noon.Add(-time.Duration(second) * time.Second) }
	s := storage.RunInterval{Run: id(n), Job: fmt.Sprintf("job-%d", n), State: state,
		Replica:   "replica-1",
		CreatedAt: at(created)}
	if started >= 0 {
		s.StartedAt = pointer(at(started))
	}
	if finished >= 0 {
		s.FinishedAt = pointer(at(finished))
	}
	return s
}

// rested has the run rest from the first of these times to the second, and so on;
// counted in seconds before noon.
func rested(s storage.RunInterval, seconds ...int) storage.RunInterval {
	var times []time.Time
	for _, second := range seconds {
		times = append(times, noon.Add(-time.Duration(second)*time.Second))
	}
	s.Rests = jobs.NewRests(times)
	return s
}

// TestRestsAreNoPartOfADuration has a run of two attempts of a minute and an hour of rest.
func TestRestsAreNoPartOfADuration(t *testing.T) {
	s := rested(ran(1, jobs.Succeeded, 3720, 3720, 0), 3660, 60)
	r := jobs.Record{State: s.State, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		Rests: s.Rests}
	o := storage.Outcome{State: s.State, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		Rests: s.Rests}
	plottedRuns := newPlot([]storage.Outcome{o, o}, noon)
	running := jobs.Record{State: jobs.Running, StartedAt: s.StartedAt, Rests: s.Rests}
	if got := since(running); !got.Equal(noon.Add(-time.Minute)) {
		t.Errorf("it runs since %s, want the start of its second attempt", got)
	}
	for got, want := range map[string]string{
		lasted(r): "2 min", plottedRuns.Top: "2 min", outcomeTitle(o): " succeeded after 2 min",
		runWords(s, noon):                        "ran 2 min, waited 1 h between attempts",
		runTitle(s, *s.StartedAt, *s.FinishedAt): "plus 1 h between attempts on replica-1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("told is %q, want %q", got, want)
		}
	}
}

func TestBarsOfATimeline(t *testing.T) {
	for name, c := range map[string]struct {
		runs []storage.RunInterval // the youngest first
		want string
	}{
		"a run, its wait and one that follows": {
			[]storage.RunInterval{ran(2, jobs.Failed, 100, 100, 90),
				ran(1, jobs.Succeeded, 500, 400, 200)},
			"0 50%+10% wait\n0 60%+20% succeeded\n0 90%+1% failed\n",
		},
		"beside each other": {
			[]storage.RunInterval{ran(3, jobs.Running, 100, 100, -1),
				ran(2, jobs.Waiting, 300, -1, -1),
				ran(1, jobs.Running, 500, 500, -1)},
			"0 50%+50% running\n1 70%+30% wait\n2 90%+10% running\n",
		},
		"from before the window, and beyond it": {
			[]storage.RunInterval{ran(2, jobs.Running, 10, 10, -1),
				ran(1, jobs.Lost, 2000, 1500, 900)},
			"0 0%+10% lost\n0 99%+1% running\n",
		},
		"outside": {[]storage.RunInterval{ran(1, jobs.Succeeded, 3000, 2000, 1100)}, ""},
		"a skip after a wait, and one at once": {
			[]storage.RunInterval{ran(2, jobs.Skipped, 100, -1, 100),
				ran(1, jobs.Skipped, 500, -1, 300)},
			"0 50%+20% wait\nmark 70% skipped\nmark 90% skipped\n",
		},
		"marks at one place": {
			[]storage.RunInterval{ran(3, jobs.Skipped, 100, -1, 100), ran(2, jobs.Missed, 101, -1, -1),
				ran(1, jobs.Skipped, 102, -1, 102)},
			"mark 89.8% missed of 3\n",
		},
		"attempts and the rests between them": {
			[]storage.RunInterval{rested(ran(1, jobs.Succeeded, 500, 500, 100), 450, 350, 300, 200)},
			"0 50%+5% succeeded\n0 55%+10% wait\n0 65%+5% succeeded\n0 70%+10% wait\n0 80%+10% " +
				"succeeded\n",
		},
		"a rest that goes on": {
			[]storage.RunInterval{rested(ran(1, jobs.Waiting, 500, 500, -1), 300)},
			"0 50%+20% waiting\n0 70%+30% wait\n",
		},
		"a rest that nobody could see": {
			[]storage.RunInterval{rested(ran(1, jobs.Failed, 500, 500, 100), 301, 300)},
			"0 50%+40% failed\n",
		},
		"cancelled while it waited": {[]storage.RunInterval{ran(1, jobs.Cancelled, 500, -1, 400)},
			"0 50%+10% wait\nmark 60% cancelled\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := drawn(t, lane{Resource: "s/t", Runs: c.runs},
				1000*time.Second); got != c.want {
				t.Errorf("drawn is\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestWhatIsTooNarrowIsDrawnAsOne has 1,000 runs of a second, one each ten
// seconds, of which one failed.
func TestWhatIsTooNarrowIsDrawnAsOne(t *testing.T) {
	var runs []storage.RunInterval
	for i := range 1000 {
		state := jobs.Succeeded
		if i == 500 {
			state = jobs.Failed
		}
		runs = append(runs, ran(i, state, i*10+1, i*10+1, i*10))
	}
	c, got := drawn(t, lane{Resource: "s/t", Runs: runs}, 10_000*time.Second)
	if c.Merged != 1000 || strings.Count(got, "failed of ") != 1 ||
		strings.Count(got, "\n") > 110 || strings.Count(got, "\n") < 80 {
		t.Errorf("%d are drawn as one with others:\n%s", c.Merged, got)
	}
	for _, b := range c.Lanes[0].Bars {
		if b.W > maxMergedWidth || b.X < 0 || b.X+b.W > 100.0001 {
			t.Errorf("bar from %s over %s", b.X, b.W)
		}
		if b.Class == "failed" && (!strings.HasPrefix(b.Path, "/zoom/") ||
			!strings.Contains(b.Title, "1 failed, from 2026-03-14 ")) {
			t.Errorf("the bar says %q and leads to %s", b.Title, b.Path)
		}
	}
	// Nearer, each is told apart.
	if c, _ := drawn(t, lane{Resource: "s/t", Runs: runs[:60]}, 600*time.Second); c.Merged != 0 {
		t.Errorf("%d of 60 are drawn as one with others", c.Merged)
	}
}

func TestMoreAtOnceThanThereAreRows(t *testing.T) {
	var runs []storage.RunInterval
	for i := range 9 {
		runs = append(runs, ran(i, jobs.Running, 100+i*50, 100+i*50, -1))
	}
	c, _ := drawn(t, lane{Resource: "s/t", Runs: runs}, 1000*time.Second)
	if c.Lanes[0].Rows != maxRows || c.Overlapping != 9-maxRows {
		t.Errorf("%d rows, %d crowded", c.Lanes[0].Rows, c.Overlapping)
	}
}

func TestLanesLieBeneathEachOther(t *testing.T) {
	tl := &timeline{Now: noon, From: noon.Add(-time.Hour), Until: noon, Lanes: []lane{
		{Resource: "a", Runs: []storage.RunInterval{ran(2, jobs.Running, 100, 100, -1),
			ran(1, jobs.Running, 200, 200, -1)}}, {Resource: "b"},
	}}
	c := newChart(tl, nil)
	if c.Lanes[0].Y != axisHeight || c.Lanes[1].Y != axisHeight+laneHeight(2) ||
		c.Height != axisHeight+laneHeight(2)+laneHeight(1) || c.Lanes[1].Statement == "" {
		t.Errorf("lanes at %d and %d, %d high", c.Lanes[0].Y, c.Lanes[1].Y, c.Height)
	}
	// The names stand beside the picture, and are as high as its lanes.
	css := string(newServer(t, calm()).assets.byName["holdfast.css"].body)
	for rows := 1; rows <= maxRows; rows++ {
		if want := fmt.Sprintf(".names .rows%d { height: %dpx; }", rows,
			laneHeight(rows)); !strings.Contains(css, want) {
			t.Errorf("the stylesheet lacks %s", want)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for length, want := range map[time.Duration]string{
		time.Hour:        "02:20 02:30 02:40 02:50 03:00 03:10",
		10 * time.Second: "03:12:06 03:12:08 03:12:10 03:12:12 03:12:14",
		24 * time.Hour:   "06:00 09:00 12:00 15:00 18:00 21:00 00:00",
		31 * 24 * time.Hour: "Feb 14 00:00 Feb 18 00:00 Feb 22 00:00 Feb 26 00:00 Mar 2 00:00 " +
			"Mar 6 00:00 Mar 10 00:00",
	} {
		var got []string
		for _, tick := range ticks(noon.Add(-length), noon) {
			got = append(got, tick.Text)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", length, text, want)
		}
	}
}

func TestRestartsAreLines(t *testing.T) {
	c, _ := drawn(t, lane{}, 1000*time.Second,
		storage.Restart{Server: "m:1", NoticedAt: ago(250 * time.Second), NoticedBy: "replica-2"})
	if len(c.Restarts) != 1 || c.Restarts[0].X.String() != "75%" ||
		!strings.Contains(c.Restarts[0].Title, "m:1 restarted") {
		t.Errorf("lines are %+v", c.Restarts)
	}
	if c.Now == nil || c.Now.String() != "100%" {
		t.Errorf("now is at %v", c.Now)
	}
}

// TestWindows reads the time that pages look at.
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
	w := windowQuery{span: windowSpans()[1]}.at(noon)
	if !w.Live || w.Until != noon || w.From != ago(time.Hour) {
		t.Errorf("the last hour is %+v", w)
	}
}

// TestUpcomingConflicts has two jobs that want one table at the full hour, a third that
// comes while either goes on, and one that has nothing to do with them.
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
	f, err := newServer(t, o).reader.findConflicts(t.Context(), noon, nil)
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
		// b waits 30 s for a; where a takes 90 s that is longer than it waits.
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

// TestUpcomingConflictsOnSemaphores has three calls at once for two slots.
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
	f, err := newServer(t, options(h)).reader.findConflicts(t.Context(), noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Conflicts) != 1 || f.Conflicts[0].Job != "c" || f.Conflicts[0].Holder != "a" ||
		f.Conflicts[0].Longest() != time.Minute || f.Jobs != 3 {
		t.Errorf("of %d jobs, conflicts are %+v", f.Jobs, f.Conflicts)
	}
}

// TestUpcomingConflictsAreBounded: it ends where as many scheduled times have come as are
// looked at, and says so.
func TestUpcomingConflictsAreBounded(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	f, err := newServer(t, rush()).reader.findConflicts(t.Context(), noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s for %d scheduled times of %d jobs, %d conflicts", time.Since(begun),
		f.ScheduledTimes, f.Jobs, len(f.Conflicts))
	if f.ScheduledTimes != maxUpcomingFirings || f.Jobs != 10_000 || !f.Truncated() ||
		len(f.Conflicts) != maxConflicts || len(f.Cut) != 2 {
		t.Errorf("%d scheduled times of %d jobs until %s, %d conflicts, cut %q", f.ScheduledTimes,
			f.Jobs, f.Until, len(f.Conflicts), f.Cut)
	}
}

// slowLengths looks up how long runs take in half a second, whatever it is asked.
type slowLengths struct{ *history }

func (s slowLengths) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	time.Sleep(durationsTimeout / 2)
	return s.history.Typical(ctx, names)
}

// TestLengthsAreLookedUpByAndBy: of many jobs a slow store tells how long they
// take in several questions, each bounded, and what it told is kept.
func TestLengthsAreLookedUpByAndBy(t *testing.T) {
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
			begun := time.Now()
			f, err := r.findConflicts(t.Context(), noon, nil)
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(f.Cut, "; "); (want == "") != !strings.Contains(said,
				"so far") || !strings.Contains(said, want) {
				t.Errorf("question %d says %q, want %q", i, said, want)
			}
			if took, most := time.Since(begun),
				[]time.Duration{durationsTimeout, durationsTimeout / 2, 0}[i]; took != most {
				t.Errorf("question %d took %s, want %s", i, took, most)
			}
		}
	})
}

// TestContentionAddsWhatWaitsStill has waits that are over, and those of now.
func TestContentionAddsWhatWaitsStill(t *testing.T) {
	r := newServer(t, night()).reader
	live, err := r.contentions(t.Context(), noon, window{ago(time.Hour), noon, true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := live.Sums[0]
	if first.Job != "prune-orders" || first.Holder != "rollup-sales" || first.Still != 1 ||
		first.Times != 2 || first.Wait() != 44*time.Minute || first.Waited != 2640 {
		t.Errorf("the longest wait is %+v", first)
	}
	past, err := r.contentions(t.Context(), noon, window{ago(time.Hour), noon, false}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range past.Sums {
		if s.Still != 0 {
			t.Errorf("of a time that is over, %+v waits still", s)
		}
	}
	about := table("vendors")
	if some, err := r.contentions(t.Context(), noon, window{ago(time.Hour), noon, true},
		&about); err != nil || len(some.Sums) != 1 || some.Sums[0].Job != "sync-vendors" {
		t.Errorf("about one table are %+v, %v", some.Sums, err)
	}
	m := newMatrix(live.Sums)
	if m.Rows[0].Job != "prune-orders" || m.Holders[0] != "rollup-sales" ||
		m.Rows[0].Cells[0].Heat != 4 || m.Rows[0].Total != 44*time.Minute {
		t.Errorf("the matrix begins with %+v of %q", m.Rows[0], m.Holders)
	}
	many := newMatrix(func() []waitSum {
		c, err := newServer(t, manyWaits()).
			reader.contentions(t.Context(), noon, window{ago(24 * time.Hour), noon, true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Sums
	}())
	if len(many.Rows) != matrixRows || len(many.Holders) != matrixColumns || many.MoreRows != 180 ||
		many.MoreCols != 30 {
		t.Errorf("%d rows and %d more, %d columns and %d more", len(many.Rows), many.MoreRows,
			len(many.Holders), many.MoreCols)
	}
}
