package charts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// noon is the time of the store's clock.
var noon = time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)

// drawn returns a chart as text: row, position, width and class of each bar.
func drawn(t *testing.T, runs []storage.RunInterval, length time.Duration,
	restarts ...storage.Restart) (*Chart, string) {
	t.Helper()
	c := New(Picture{Now: noon, From: noon.Add(-length), Until: noon,
		Lanes: [][]storage.RunInterval{runs}, Restarts: restarts,
		Zoom: func(from, until time.Time) string {
			return fmt.Sprintf("/zoom/%s/%s", from.Format("150405"), until.Format("150405"))
		}})
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

// ran returns a run with its times in seconds before noon.
func ran(n int, state jobs.State, created, started, finished int) storage.RunInterval {
	at := func(second int) time.Time { return noon.Add(-time.Duration(second) * time.Second) }
	s := storage.RunInterval{Run: uuid.UUID{15: byte(n)}, Job: fmt.Sprintf("job-%d", n),
		State: state, Replica: "replica-1",
		CreatedAt: at(created)}
	if started >= 0 {
		s.StartedAt = new(at(started))
	}
	if finished >= 0 {
		s.FinishedAt = new(at(finished))
	}
	return s
}

// withWaits returns the run with retry waits. Each pair of times, in seconds before noon, is one
// wait.
func withWaits(s storage.RunInterval, seconds ...int) storage.RunInterval {
	var times []time.Time
	for _, second := range seconds {
		times = append(times, noon.Add(-time.Duration(second)*time.Second))
	}
	s.RetryWaits = storage.NewRetryWaits(times)
	return s
}

func TestBarsOfATimeline(t *testing.T) {
	for name, c := range map[string]struct {
		runs []storage.RunInterval // the newest first
		want string
	}{
		"a run, its wait and the next run": {
			[]storage.RunInterval{ran(2, jobs.Failed, 100, 100, 90),
				ran(1, jobs.Succeeded, 500, 400, 200)},
			"0 50%+10% wait\n0 60%+20% succeeded\n0 90%+1% failed\n",
		},
		"concurrent runs": {
			[]storage.RunInterval{ran(3, jobs.Running, 100, 100, -1),
				ran(2, jobs.Waiting, 300, -1, -1),
				ran(1, jobs.Running, 500, 500, -1)},
			"0 50%+50% running\n1 70%+30% wait\n2 90%+10% running\n",
		},
		"run beyond both ends of the window": {
			[]storage.RunInterval{ran(2, jobs.Running, 10, 10, -1),
				ran(1, jobs.Lost, 2000, 1500, 900)},
			"0 0%+10% lost\n0 99%+1% running\n",
		},
		"outside": {[]storage.RunInterval{ran(1, jobs.Succeeded, 3000, 2000, 1100)}, ""},
		"a skip after a wait and a skip at once": {
			[]storage.RunInterval{ran(2, jobs.Skipped, 100, -1, 100),
				ran(1, jobs.Skipped, 500, -1, 300)},
			"0 50%+20% wait\nmark 70% skipped\nmark 90% skipped\n",
		},
		"marks at one position": {
			[]storage.RunInterval{ran(3, jobs.Skipped, 100, -1, 100),
				ran(2, jobs.Missed, 101, -1, -1), ran(1, jobs.Skipped, 102, -1, 102)},
			"mark 89.8% missed of 3\n",
		},
		"attempts and the delays between them": {
			[]storage.RunInterval{withWaits(ran(1, jobs.Succeeded, 500, 500, 100), 450, 350, 300,
				200)},
			"0 50%+5% succeeded\n0 55%+10% wait\n0 65%+5% succeeded\n0 70%+10% wait\n0 80%+10% " +
				"succeeded\n",
		},
		"an open delay": {
			[]storage.RunInterval{withWaits(ran(1, jobs.Waiting, 500, 500, -1), 300)},
			"0 50%+20% waiting\n0 70%+30% wait\n",
		},
		"a delay that is too short to draw": {
			[]storage.RunInterval{withWaits(ran(1, jobs.Failed, 500, 500, 100), 301, 300)},
			"0 50%+40% failed\n",
		},
		"cancelled while it waited": {[]storage.RunInterval{ran(1, jobs.Cancelled, 500, -1, 400)},
			"0 50%+10% wait\nmark 60% cancelled\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := drawn(t, c.runs,
				1000*time.Second); got != c.want {
				t.Errorf("drawn is\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestNarrowBarsAreMerged draws 1,000 runs of one second, ten seconds apart. One of them failed.
func TestNarrowBarsAreMerged(t *testing.T) {
	var runs []storage.RunInterval
	for i := range 1000 {
		state := jobs.Succeeded
		if i == 500 {
			state = jobs.Failed
		}
		runs = append(runs, ran(i, state, i*10+1, i*10+1, i*10))
	}
	c, got := drawn(t, runs, 10_000*time.Second)
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
	// In a shorter interval each run has its own bar.
	if c, _ := drawn(t, runs[:60], 600*time.Second); c.Merged != 0 {
		t.Errorf("%d of 60 are drawn as one with others", c.Merged)
	}
}

func TestMoreConcurrentRunsThanRows(t *testing.T) {
	var runs []storage.RunInterval
	for i := range 9 {
		runs = append(runs, ran(i, jobs.Running, 100+i*50, 100+i*50, -1))
	}
	c, _ := drawn(t, runs, 1000*time.Second)
	if c.Lanes[0].Rows != MaxRows || c.Overlapping != 9-MaxRows {
		t.Errorf("%d rows, %d crowded", c.Lanes[0].Rows, c.Overlapping)
	}
	labels := 0
	for _, b := range c.Lanes[0].Bars {
		if b.Label != "" {
			labels++
		}
	}
	if labels != MaxRows {
		t.Errorf("%d labels in %d rows of bars that overlap", labels, MaxRows)
	}
}

func TestPositionsOfLanes(t *testing.T) {
	c := New(Picture{Now: noon, From: noon.Add(-time.Hour), Until: noon,
		Lanes: [][]storage.RunInterval{{ran(2, jobs.Running, 100, 100, -1),
			ran(1, jobs.Running, 200, 200, -1)}, nil}})
	if c.Lanes[0].Y != AxisHeight || c.Lanes[1].Y != AxisHeight+laneHeight(2) ||
		c.Height != AxisHeight+laneHeight(2)+laneHeight(minRows) || c.Lanes[1].Statement == "" {
		t.Errorf("lanes at %d and %d, %d high", c.Lanes[0].Y, c.Lanes[1].Y, c.Height)
	}
	// The names are next to the chart and have the height of its rows.
	css, err := os.ReadFile("../pages/static/holdfast.css")
	if err != nil {
		t.Fatal(err)
	}
	for rows := minRows; rows <= MaxRows; rows++ {
		if want := fmt.Sprintf(".timeline .rows%d { height: %dpx; }", rows,
			laneHeight(rows)); !strings.Contains(string(css), want) {
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

// TestLossesOfReplicas finds the losses in the runs of lanes. Runs of one sweep are one loss, and a
// run on two lanes counts once.
func TestLossesOfReplicas(t *testing.T) {
	run := func(replica string, reason jobs.Reason, ago time.Duration) storage.RunInterval {
		end := noon.Add(-ago)
		return storage.RunInterval{Run: uuid.New(), Job: "j", State: jobs.Lost, Reason: reason,
			Replica: replica, CreatedAt: end.Add(-time.Minute), StartedAt: &end, FinishedAt: &end}
	}
	shared := run("a", reasons.SessionLost, 100*time.Second)
	lanes := [][]storage.RunInterval{
		{shared, run("a", reasons.SessionLost, 98*time.Second),
			run("b", reasons.ClaimLost, 98*time.Second)}, // released by force
		{shared, run("b", reasons.SessionLost, 500*time.Second),
			run("a", reasons.SessionLost, 20*time.Second),
			run("a", reasons.SessionLost, 2*time.Hour)},
	}
	want := []Loss{{"b", noon.Add(-500 * time.Second), 1}, {"a", noon.Add(-100 * time.Second), 2},
		{"a", noon.Add(-20 * time.Second), 1}}
	from := noon.Add(-1000 * time.Second)
	losses := LossesOf(lanes, from, noon)
	if !slices.Equal(losses, want) {
		t.Errorf("got %+v, want %+v", losses, want)
	}
	c := New(Picture{Now: noon, From: from, Until: noon, Lanes: lanes, Losses: losses,
		Zoom: func(time.Time, time.Time) string { return "" }})
	if len(c.Losses) != 3 || c.Losses[1].X.String() != "90%" ||
		!strings.Contains(c.Losses[1].Title, "replica a was lost with 2 runs, recorded 2026-") {
		t.Errorf("lines are %+v", c.Losses)
	}
}

func TestRestartsAreLines(t *testing.T) {
	c, _ := drawn(t, nil, 1000*time.Second,
		storage.Restart{Server: "m:1", NoticedAt: noon.Add(-250 * time.Second),
			NoticedBy: "replica-2"})
	if len(c.Restarts) != 1 || c.Restarts[0].X.String() != "75%" ||
		!strings.Contains(c.Restarts[0].Title, "m:1 restarted") {
		t.Errorf("lines are %+v", c.Restarts)
	}
	if c.Now == nil || c.Now.String() != "100%" {
		t.Errorf("now is at %v", c.Now)
	}
}

// TestDurationExcludesDelaysBetweenAttempts draws a run with two attempts of a minute each and an
// hour between them.
func TestDurationExcludesDelaysBetweenAttempts(t *testing.T) {
	s := withWaits(ran(1, jobs.Succeeded, 3720, 3720, 0), 3660, 60)
	r := storage.Record{State: s.State, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		RetryWaits: s.RetryWaits}
	o := storage.Outcome{State: s.State, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		RetryWaits: s.RetryWaits}
	plotted := NewScatter("a", []storage.Outcome{o, o}, noon)
	running := storage.Record{State: jobs.Running, StartedAt: s.StartedAt, RetryWaits: s.RetryWaits}
	if got := records.Since(running); !got.Equal(noon.Add(-time.Minute)) {
		t.Errorf("it runs since %s, want the start of its second attempt", got)
	}
	for got, want := range map[string]string{
		records.Lasted(r): "2 min", plotted.Rows[0].Duration: "2 min",
		outcomeTitle(o):                          " succeeded after 2 min",
		RunWords(s, noon):                        "ran 2 min, waited 1 h between attempts",
		runTitle(s, *s.StartedAt, *s.FinishedAt): "plus 1 h between attempts on replica-1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWindowEndsNow(t *testing.T) {
	w := WindowQuery{span: WindowSpans()[1]}.At(noon)
	if !w.Live || w.Until != noon || w.From != noon.Add(-time.Hour) {
		t.Errorf("the last hour is %+v", w)
	}
}

// TestLanesKeepTheirHeights draws lanes of a given height with fewer and with more concurrent runs
// than it has rows. The bars must fit into the lane and not touch each other.
func TestLanesKeepTheirHeights(t *testing.T) {
	for height := range MaxRows + 1 {
		for concurrent := 1; concurrent <= MaxRows; concurrent++ {
			var runs []storage.RunInterval
			for i := range concurrent {
				runs = append(runs, ran(i, jobs.Running, 100+i*50, 100+i*50, -1))
			}
			lane := New(Picture{Now: noon, From: noon.Add(-time.Hour), Until: noon,
				Lanes: [][]storage.RunInterval{runs}, Heights: []int{height}}).Lanes[0]
			want := max(height, minRows)
			if height == 0 {
				want = max(concurrent, minRows)
			}
			if lane.Rows != want || len(lane.Bars) != concurrent {
				t.Errorf("%d runs in %d rows: %d bars in %d rows, want %d", concurrent, height,
					len(lane.Bars), lane.Rows, want)
			}
			end := lane.BarsY
			for _, b := range lane.Bars {
				if b.Y < end || b.H < 5 || b.Y+b.H > lane.BarsY+want*rowHeight {
					t.Errorf("%d runs in %d rows: a bar at %d, %d high, after %d", concurrent,
						height, b.Y, b.H, end)
				}
				end = b.Y + b.H + 1
			}
		}
	}
}
