package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// withUpcoming lets the options know the next firing of each job in the history.
func withUpcoming(o Options) Options {
	h := o.Store.(*history)
	o.Upcoming = func(from time.Time, n int) []ScheduledFiring {
		var all []ScheduledFiring
		for _, v := range h.jobs {
			for _, at := range o.ScheduledTimes(v.Name, from, 1) {
				all = append(all, ScheduledFiring{Job: v.Name, ScheduledAt: at,
					Resources: v.Resources})
			}
		}
		slices.SortFunc(all, func(a, b ScheduledFiring) int {
			return cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), strings.Compare(a.Job, b.Job))
		})
		return all[:min(n, len(all))]
	}
	return o
}

// hourly is a cluster in which report is scheduled while load usually holds its table. The job tick
// fires often.
func hourly() Options {
	h := &history{now: noon, jobs: []storage.JobView{job("tick", "* * * * *"),
		job("load", "0 * * * *", "orders"), job("report", "5 * * * *", "orders")},
		typical: map[string]storage.Typical{
			"load":   {Runs: 20, Median: 10 * time.Minute, Long: 15 * time.Minute},
			"report": {Runs: 20, Median: time.Minute, Long: 2 * time.Minute},
			"tick":   {Runs: 20, Median: 40 * time.Millisecond, Long: time.Second},
		},
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 0)}}
	return withUpcoming(options(h))
}

func readAgenda(t *testing.T, o Options, query string) locks.Agenda {
	t.Helper()
	reply := get(t, newServer(t, o).Handler(), "/api/v1/agenda"+query)
	if reply.Code != http.StatusOK {
		t.Fatalf("%s: got %d %s, want 200", query, reply.Code, reply.Body)
	}
	var a locks.Agenda
	if err := json.Unmarshal(reply.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAgendaExpectsWaits(t *testing.T) {
	a := readAgenda(t, hourly(), "?span=6h")
	if a.Jobs != 3 || a.ScheduledTimes != 372 || a.Waits != 6 || a.Skips != 0 || len(a.Cut) > 0 {
		t.Errorf("%d jobs, %d firings, %d wait, %d skipped, cut %q; want 3, 372, 6, 0, none",
			a.Jobs, a.ScheduledTimes, a.Waits, a.Skips, a.Cut)
	}
	var order []string
	for _, j := range a.Entries {
		order = append(order, fmt.Sprintf("%s %d/%d", j.Job, len(j.Times), j.Firings))
	}
	if got, want := strings.Join(order, ", "), "load 6/6, report 6/6, tick 0/360"; got != want {
		t.Fatalf("entries %s, want %s", got, want)
	}
	four := time.Date(2026, 3, 14, 4, 0, 0, 0, time.UTC)
	want := locks.AgendaFiring{ScheduledAt: four.Add(5 * time.Minute),
		StartsAt: four.Add(10 * time.Minute), WaitsFor: "load", Resource: "public/orders"}
	if got := a.Entries[1].Times[0]; got != want {
		t.Errorf("first firing of report: %+v, want %+v", got, want)
	}
	firings, waits := 0, 0
	for _, interval := range a.Intervals {
		firings, waits = firings+interval.Firings, waits+interval.Waits
	}
	if len(a.Intervals) != 96 || firings != 372 || waits != 6 {
		t.Errorf("%d intervals with %d firings and %d waits, want 96 with 372 and 6",
			len(a.Intervals), firings, waits)
	}
}

// TestAgendaHasBands checks the headings of the chart, and that a page begins with one.
func TestAgendaHasBands(t *testing.T) {
	heading := regexp.MustCompile(`<li class="h26 band"><span class="sub">([^<]*)<|` +
		`<rect class="band" x="0" y="(\d+)"|<a [^>]*href="/jobs/([a-z]+)"`)
	body := get(t, newServer(t, hourly()).Handler(), "/agenda?span=6h").Body.String()
	_, body, _ = strings.Cut(body, `<li class="axis">Job</li>`)
	body, _, _ = strings.Cut(body, "The same as a table")
	var got []string
	for _, m := range heading.FindAllStringSubmatch(body, -1) {
		got = append(got, m[1]+m[2]+m[3])
	}
	want := []string{"Long runs", "load", "Hourly", "report", "More than hourly", "tick",
		"30", "94", "158"}
	if got = got[:min(len(got), len(want))]; !slices.Equal(got, want) {
		t.Errorf("got headings and jobs %q, want %q", got, want)
	}
	for _, e := range readAgenda(t, hourly(), "").Entries {
		if want := map[string]locks.AgendaBand{"load": locks.AgendaLongRuns,
			"report": locks.AgendaHourly, "tick": locks.AgendaFrequent}[e.Job]; e.Band != want {
			t.Errorf("%s is in band %s, want %s", e.Job, e.Band, want)
		}
	}
}

// impatient is hourly, where report waits for one minute only.
func impatient() Options {
	o := hourly()
	o.LongestWait = func(job string, _ time.Duration) (time.Duration, bool) {
		return time.Minute, job == "report"
	}
	return o
}

func TestAgendaExpectsSkips(t *testing.T) {
	a := readAgenda(t, impatient(), "?span=1h&conflicts=yes")
	if a.Skips != 1 || len(a.Entries) != 1 || a.Entries[0].Job != "report" ||
		!a.Entries[0].Times[0].Skipped {
		t.Errorf("agenda %+v, want one skip of report", a)
	}
}

func TestAgendaIsFilteredAndPaged(t *testing.T) {
	if a := readAgenda(t, hourly(), "?text=ORDERS"); len(a.Entries) != 2 {
		t.Errorf("%d jobs that lock orders, want 2", len(a.Entries))
	}
	o := options(&history{now: noon})
	h := o.Store.(*history)
	for i := range 50 {
		h.jobs = append(h.jobs, job(fmt.Sprintf("job-%02d", i), "0 * * * *"))
	}
	handler := newServer(t, withUpcoming(o)).Handler()
	reply := get(t, handler, "/api/v1/agenda")
	if got, want := reply.Header().Get("Link"), `</api/v1/agenda?skip=40>; rel="next"`; got != want {
		t.Errorf("Link is %q, want %q", got, want)
	}
	if body := get(t, handler, "/agenda?skip=40").Body.String(); !strings.Contains(body,
		"job-49") || strings.Contains(body, "job-39") {
		t.Error("the second page has other jobs than the last ten")
	}
}

// TestAgendaBeginsWithHeldLocks lets a run hold a table. The next firing that needs it is expected
// to wait for the usual end of that run, or for as long again if it runs for longer than usual.
func TestAgendaBeginsWithHeldLocks(t *testing.T) {
	for held, want := range map[time.Duration]time.Duration{
		5 * time.Minute:  0, // it ends at 03:17:15, before the next firing
		time.Minute:      0, // at 03:21:15, before 04:00
		70 * time.Minute: 22*time.Minute + 15*time.Second,
	} {
		o := hourly()
		h := o.Store.(*history)
		run := running(1, "hog", "replica-1", held)
		h.typical["hog"] = storage.Typical{Runs: 20, Median: 10 * time.Minute,
			Long: 15 * time.Minute}
		h.runs, h.locks = []storage.Record{run}, []storage.LockView{lock("orders", run, held)}
		a := readAgenda(t, o, "?span=1h")
		var load locks.AgendaJob
		for _, j := range a.Entries {
			if j.Job == "load" {
				load = j
			}
		}
		first := load.Times[0]
		if wait := first.StartsAt.Sub(first.ScheduledAt); wait != want ||
			(first.WaitsFor == "hog") != (want > 0) {
			t.Errorf("held for %s: the firing of %s waits %s for %q, want %s", held,
				first.ScheduledAt, wait, first.WaitsFor, want)
		}
	}
}

// TestAgendaListsConflicts checks the list of expected conflicts below the chart.
func TestAgendaListsConflicts(t *testing.T) {
	body := flat(get(t, newServer(t, impatient()).Handler(), "/agenda").Body.String())
	list := regexp.MustCompile(`<section class="panel" id="conflicts".*?</section>`).
		FindString(body)
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(list, " ")
	if want := regexp.MustCompile(`Expected conflicts 1 .* 04:05:00 report load public/orders ` +
		`24 5 min skipped`); !want.MatchString(strings.Join(strings.Fields(text), " ")) {
		t.Errorf("the list says %q", strings.Join(strings.Fields(text), " "))
	}
}

// pausedHourly is hourly, where report is paused.
func pausedHourly() Options {
	o := hourly()
	o.Store.(*history).pauses = []storage.Pause{{By: "bob", At: ago(time.Hour),
		Target: storage.Target{Kind: storage.TargetJob, Name: "report"}}}
	return o
}

// TestAgendaMarksPausedJobs pauses one of two jobs that conflict: by its name, by its group and
// with all jobs. Its firings must be marked, and no conflict is expected.
func TestAgendaMarksPausedJobs(t *testing.T) {
	for _, c := range []struct {
		target                            storage.Target
		firings, waits, conflicts, paused int
	}{
		{storage.Target{Kind: storage.TargetJob, Name: "report"}, 366, 0, 0, 1},
		{storage.Target{Kind: storage.TargetGroup, Name: "night"}, 366, 0, 0, 1},
		{storage.Target{Kind: storage.TargetGroup, Name: "day"}, 372, 6, 1, 0},
		{storage.Target{Kind: storage.TargetAll}, 0, 0, 0, 3},
	} {
		o := hourly()
		h := o.Store.(*history)
		h.jobs[1].Group = "night" // load
		h.pauses = []storage.Pause{{Target: c.target, At: ago(time.Hour), By: "bob"}}
		handler := newServer(t, o).Handler()
		a := readAgenda(t, o, "?span=6h")
		if a.ScheduledTimes != c.firings || a.Waits != c.waits || a.PausedJobs != c.paused ||
			a.Jobs+a.PausedJobs != 3 || len(a.Entries) != 3 {
			t.Errorf("%s: got %d firings, %d waits, %d paused of %d entries, want %+v", c.target,
				a.ScheduledTimes, a.Waits, a.PausedJobs, len(a.Entries), c)
		}
		for _, j := range a.Entries {
			if len(j.Times) > 0 && j.Paused != j.Times[0].StartsAt.IsZero() {
				t.Errorf("%s: got %+v, want starts only of jobs that are not paused", c.target, j)
			}
		}
		body := get(t, handler, "/agenda?span=6h").Body.String()
		if got := strings.Contains(body, "paused by bob") &&
			strings.Contains(body, `class="hollow"`); got != (c.paused > 0) {
			t.Errorf("%s: the page marks paused jobs: %t", c.target, got)
		}
		var conflicts locks.UpcomingConflicts
		if err := json.Unmarshal(get(t, handler, "/api/v1/locks/upcoming").Body.Bytes(),
			&conflicts); err != nil || len(conflicts.Conflicts) != c.conflicts {
			t.Errorf("%s: got %d conflicts (%v), want %d", c.target, len(conflicts.Conflicts), err,
				c.conflicts)
		}
	}
}

// TestAgendaIsBounded checks a cron table with more firings than are examined.
func TestAgendaIsBounded(t *testing.T) {
	o := options(&history{now: noon})
	h := o.Store.(*history)
	for i := range 200 {
		h.jobs = append(h.jobs, job(fmt.Sprintf("job-%03d", i), "* * * * * *"))
	}
	o.ScheduledTimes = func(_ string, from time.Time, n int) []time.Time {
		times := make([]time.Time, n)
		for i := range times {
			times[i] = from.Truncate(time.Second).Add(time.Duration(i+1) * time.Second)
		}
		return times
	}
	a := readAgenda(t, withUpcoming(o), "?span=1h")
	if a.ScheduledTimes != 50_000 || !a.Until.Before(noon.Add(5*time.Minute)) || len(a.Cut) == 0 {
		t.Errorf("%d firings until %s, cut %q; want 50000 of the first minutes", a.ScheduledTimes,
			a.Until, a.Cut)
	}
}
