package words

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s",
		time.Minute:      "1 min",
		61 * time.Second: "1 min 1 s", 130 * time.Minute: "2 h 10 min", 25 * time.Hour: "1 d 1 h",
		48 * time.Hour: "2 d",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%s) is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		12 * time.Millisecond: "12 ms", 1234 * time.Millisecond: "1.2 s", 12 * time.Second: "12 s",
		90 * time.Second: "1 min 30 s",
	} {
		if got := Took(d); got != want {
			t.Errorf("took(%s) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "no", 1: "one", 12: "twelve", 13: "13"} {
		if got := Number(n); got != want {
			t.Errorf("number(%d) is %q, want %q", n, got, want)
		}
	}
	if got := Cut("äöü", 2); got != "äö…" {
		t.Errorf("cut gives %q", got)
	}
	if got := Cut("äöü", 3); got != "äöü" {
		t.Errorf("cut gives %q", got)
	}
}

// TestEveryReasonHasAText checks that the page shows no reason by its constant.
func TestEveryReasonHasAText(t *testing.T) {
	for _, reason := range reasons.All() {
		words := Why(storage.Record{Reason: reason})
		if len(strings.Fields(words)) < 3 {
			t.Errorf("%s reads %q", reason, words)
		}
	}
	blocked := storage.Record{State: jobs.Waiting, Reason: reasons.LockHeld}
	blocked.BlockedBy = &jobs.Blocker{
		Resource: "public/orders", Holder: locking.Owner{Replica: "r1", Job: "rollup", Run: "x"},
	}
	if got := Why(blocked); got != "public/orders is held by job rollup on r1" {
		t.Errorf("lock_held reads %q", got)
	}
	blocked.State = jobs.Skipped
	if got := Why(blocked); got != "public/orders was held by job rollup on r1" {
		t.Errorf("after the wait, lock_held reads %q", got)
	}
}

func TestUnbroken(t *testing.T) {
	const text = "It took 9 min, 1 h 7 min or 12 ms. 3 minutes, 2 d, 10 more, id 4 s1"
	const want = "It took 9~min, 1~h 7~min or 12~ms. 3 minutes, 2~d, 10 more, id 4 s1"
	if got := strings.ReplaceAll(Unbroken(text), "\u00a0", "~"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		"held by job a (run 0195912a-7c40-7000-8000-0000255b0001) on r2; tried 34 times in 5m0.012s": "held by job a (run …255b0001) on r2; tried 34 times in 5 min",
		"no replica started it within 30s":             "no replica started it within 30 s",
		"It ran at 02:30 for 1m10.5s and succeeded":    "It ran at 02:30 for 1 min 10 s and succeeded",
		"tried 3 times in 750ms.":                      "tried 3 times in 750 ms.",
		"waits for 3ss, in 5mh, in 12.10.0.s, in 2024": "waits for 3ss, in 5mh, in 12.10.0.s, in 2024",
		"down from 2026-03-13T01:00:00Z until 2026-03-13T03:00:00.25+01:00": "down from " +
			"2026-03-13 01:00:00 UTC until 2026-03-13 02:00:00 UTC",
		"at 2026-13-13T01:00:00Z": "at 2026-13-13T01:00:00Z",
		"tried 1234 times in 5m":  "tried 1,234 times in 5 min",
	} {
		if got := Readable(text); got != want {
			t.Errorf("%q reads %q, want %q", text, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 999: "999 runs",
		1000: "1,000 runs", 25_884: "25,884 runs", 1_234_567: "1,234,567 runs"} {
		if got := Figure(n, "run", "runs"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := PlainFigure(25_884, "run", "runs"); got != "25884 runs" {
		t.Errorf("a sentence of the API has %q, want no comma", got)
	}
	got := CountsByState(map[jobs.State]int{jobs.TimedOut: 1, jobs.Skipped: 0,
		jobs.Succeeded: 1200})
	if !slices.Equal(got, []string{"1,200 succeeded", "1 timed out"}) {
		t.Errorf("got %q by state", got)
	}
}

// TestGrouped checks that only counts get commas in sentences of the API.
func TestGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"1205 of 3000 tables held.":          "1,205 of 3,000 tables held.",
		"Runs: 1000 running, 99999 waiting.": "Runs: 1,000 running, 99,999 waiting.",
		"The simulation ends after 50000 scheduled times": "The simulation ends after 50,000 " +
			"scheduled times",
		"Jobs fail (1234 jobs)":                               "Jobs fail (1,234 jobs)",
		"Job load-2024 failed 999 times":                      "Job load-2024 failed 999 times",
		"dial tcp 10.0.0.1:11211 times out":                   "dial tcp 10.0.0.1:11211 times out",
		"2026-03-14 02:30:00 UTC, line 1234, port 8080 is up": "2026-03-14 02:30:00 UTC, line 1234, port 8080 is up",
	} {
		if got := Grouped(text); got != want {
			t.Errorf("%q reads %q, want %q", text, got, want)
		}
	}
}

// TestAbout rounds numbers to three digits.
func TestAbout(t *testing.T) {
	for n, want := range map[int][2]string{
		0: {"0", "0"}, 999: {"999", "999"}, 1234: {"1,230", "1.23k"}, 9996: {"10,000", "10k"},
		12_345: {"12,300", "12.3k"}, 100_049: {"100,000", "100k"}, 999_600: {"1 million", "1M"},
		1_234_567: {"1.23 million", "1.23M"}, 11_000_300: {"11 million", "11M"},
		987_654_321: {"988 million", "988M"}, 12_345_678_900: {"12.3 billion", "12.3B"},
	} {
		if got := [2]string{About(n), Brief(n)}; got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
