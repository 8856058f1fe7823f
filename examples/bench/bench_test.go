package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// TestMain runs the program instead of the tests if a test has started the binary as a replica.
func TestMain(m *testing.M) {
	if startedAsReplica(os.Args) {
		replica()
		return
	}
	if startedAsBare(os.Args) {
		if err := bare(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestBareProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	var out strings.Builder
	args := []string{"-bare", "-replicas", "2", "-seconds", "1", "-warm-up", "0s"}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 processes that", "processor time of the processes "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}

func TestEachFiringRunsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	shared := []string{"-processes", "2"} // by three replicas
	for _, mode := range soak.Pick([][]string{shared},
		[][]string{nil, shared, {"-share"}, {"-no-op"}}) {
		t.Run(strings.Join(append([]string{"bench"}, mode...), " "), func(t *testing.T) {
			args := append([]string{"-jobs", "20", "-seconds", "3", "-warm-up", "1s", "-grace",
				"1m"}, mode...)
			o, err := parseOptions(args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			results, err := measureAll(t.Context(), o, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if got := r.tally; got.firings != 60 || got.once != 60 || got.more != 0 ||
				got.never != 0 {
				t.Errorf("of %d firings %d ran once, %d more often, %d never (%v), want 60 and "+
					"all once", got.firings, got.once, got.more, got.never, got.neverBy)
			}
			if err := r.check(); err != nil {
				t.Error(err)
			}
			if len(r.tally.started) != 60 || len(r.tally.finished) != 60 {
				t.Errorf("delays of %d starts and %d ends", len(r.tally.started),
					len(r.tally.finished))
			}
			var out strings.Builder
			if err := printResults(&out, o, results); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"ran once", "start delay",
				"transactions a run", "River 0.51"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
		})
	}
}

// TestSharedTables has four jobs contend for one table.
func TestSharedTables(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	o, err := parseOptions([]string{"-no-op", "-tables", "1", "-hold", "50ms", "-jobs", "4",
		"-seconds", "3", "-warm-up", "1s", "-grace", "1m"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	results, err := measureAll(t.Context(), o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if got := r.tally; got.firings != 12 || got.more != 0 || got.neverBy[""] != 0 {
		t.Errorf("of %d firings %d ran more than once, %d have no record, want 12, 0, 0",
			got.firings, got.more, got.neverBy[""])
	}
	if least := 0.05 * float64(r.tally.once) / 3; r.shared.busy < least/2 || r.shared.busy > 1 {
		t.Errorf("the table was held for %.2f of the time, want about %.2f", r.shared.busy, least)
	}
}

func TestTally(t *testing.T) {
	from := time.Unix(1000, 0).UTC()
	w := window{jobs: 3, from: from, until: from.Add(2 * time.Second)}
	at := func(ms int) *time.Time { t := from.Add(time.Duration(ms) * time.Millisecond); return &t }
	ran := func(job, scheduledAt, ms int) pair {
		return pair{job: jobName(job), scheduledAt: at(scheduledAt * 1000), state: "succeeded",
			started: at(ms), inserted: at(ms + 1), finished: at(ms + 2)}
	}
	pairs := []pair{
		ran(0, 0, 5), ran(0, 1, 1005), ran(1, 0, 10), ran(1, 0, 12),
		ran(0, -1, 0), ran(0, 2, 2001), // outside
		{job: jobName(2), scheduledAt: at(0), state: "skipped", finished: at(3)},
		{job: jobName(2), scheduledAt: at(1000), state: "succeeded", started: at(1001), finished: at(1002)},
		{job: jobName(2), inserted: at(7)},
		{job: jobName(1), scheduledAt: at(5000), state: "lost", started: at(5001), inserted: at(5002)},
	}
	got := tallyOf(pairs, w)
	if got.firings != 6 || got.once != 2 || got.more != 1 || got.never != 3 {
		t.Errorf("%d firings, %d once, %d more often, %d never; want 6, 2, 1, 3", got.firings,
			got.once, got.more, got.never)
	}
	if got.ended != 7 { // all with a finish, except the one at 2,003 ms
		t.Errorf("%d runs ended while the counters ran, want 7", got.ended)
	}
	if want := map[string]int{"skipped": 1, "succeeded": 1,
		"": 1}; fmt.Sprint(got.neverBy) != fmt.Sprint(want) {
		t.Errorf("never by %v, want %v", got.neverBy, want)
	}
	if got.orphans != 1 || got.unbacked != 1 || got.foreign != 1 {
		t.Errorf("%d orphans, %d unbacked, %d foreign; want one of each", got.orphans, got.unbacked,
			got.foreign)
	}
	if p := got.started.percentile(0.99); p != 12*time.Millisecond {
		t.Errorf("p99 %s", p)
	}
	for what, bad := range map[string]tally{"twice": {more: 1}, "orphan": {orphans: 1},
		"unbacked": {unbacked: 1}, "foreign": {foreign: 1}} {
		if (result{tally: bad}).check() == nil {
			t.Errorf("%s is let through", what)
		}
	}
	if err := (result{tally: tally{never: 1}}).check(); err != nil {
		t.Errorf("a firing that never ran: %v", err)
	}
}

func TestPercentile(t *testing.T) {
	var l delays
	if got := l.percentile(0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	for i := range 100 {
		l = append(l, time.Duration(100-i))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := l.percentile(share); got != want {
			t.Errorf("%v: %d, want %d", share, got, want)
		}
	}
}

func TestParseProcess(t *testing.T) {
	got, err :=
		parseProcess("12 (a b) c)) S 7 12 12 0 -1 4194560 1 2 3 4 100 50 20 10 20 0 1 0 99 1 1")
	if want := (process{parent: 7, used: 1500 * time.Millisecond,
		ended: 300 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "12 (x) S 7",
		"12 (x) S x 12 12 0 -1 4194560 1 2 3 4 100 50 20 10 20 0"} {
		if _, err := parseProcess(bad); err == nil {
			t.Errorf("%q went through", bad)
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-jobs", "10, 30", "-fsync", "-postgres", "wal_level=minimal"},
		io.Discard)
	if err != nil || o.jobs.String() != "10,30" {
		t.Fatalf("got options %+v (%v), want jobs 10,30", o, err)
	}
	settings := strings.Join(o.settings(), " ")
	if strings.LastIndex(settings, "fsync=on") < strings.LastIndex(settings, "fsync=off") ||
		!strings.HasSuffix(settings, "wal_level=minimal") {
		t.Errorf("settings %q", settings)
	}
	for _, bad := range [][]string{{"-jobs", "0"}, {"-jobs", "x"}, {"-seconds", "0"},
		{"-replicas", "0"}, {"-connections", "1"}, {"-warm-up", "-1s"}, {"-processes", "4"},
		{"-processes", "-1"}, {"-processes", "2", "-bare"}, {"more"}} {
		if _, err := parseOptions(bad, io.Discard); err == nil {
			t.Errorf("%q went through", bad)
		}
	}
}

func TestDivide(t *testing.T) {
	for _, test := range []struct {
		replicas, processes int
		want                string
	}{
		{3, 0, "[[replica-1] [replica-2] [replica-3]]"},
		{5, 2, "[[replica-1 replica-3 replica-5] [replica-2 replica-4]]"},
		{3, 1, "[[replica-1 replica-2 replica-3]]"},
	} {
		o := options{replicas: test.replicas, processes: test.processes}
		if got := fmt.Sprint(o.divide()); got != test.want {
			t.Errorf("%d replicas in %d processes: got %s, want %s", test.replicas, test.processes,
				got, test.want)
		}
	}
}

func TestSleepUntilEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleepUntil(ctx, time.Now().Add(time.Hour)); err == nil {
		t.Error("result after a cancel: got success, want an error")
	}
}
