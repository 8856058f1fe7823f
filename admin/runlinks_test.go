package admin

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func namesOfLinks(links []runLink) (all, here []string) {
	for _, l := range links {
		if all = append(all, l.Name+" "+l.Path); l.Here {
			here = append(here, l.Name)
		}
	}
	return all, here
}

func TestStateTabs(t *testing.T) {
	p := param.Set{Values: url.Values{"job": {"a"}, "state": {"timed_out", "failed"},
		"before": {"x"}}}
	all, here := namesOfLinks(stateTabs(p, []string{"timed_out", "failed"}))
	for _, want := range []string{"All /runs?job=a", "Running /runs?job=a&state=running",
		"Failed /runs?job=a&state=failed%2Ctimed_out"} {
		if !slices.Contains(all, want) {
			t.Errorf("no tab %q: %q", want, all)
		}
	}
	if !slices.Equal(here, []string{"Failed"}) {
		t.Errorf("current tabs are %q, want Failed", here)
	}
	if _, here := namesOfLinks(stateTabs(p, []string{"failed"})); here != nil {
		t.Errorf("one of two states has the tabs %q, want none", here)
	}
}

func TestTimeSpans(t *testing.T) {
	now := time.Date(2026, 3, 17, 2, 41, 17, 0, time.UTC)
	p := param.Set{Values: url.Values{"state": {"lost"}, "after": {"x"}}}
	all, here := namesOfLinks(timeSpans(p, now, time.Time{}, time.Time{}))
	want := []string{"All /runs?state=lost",
		"Last hour /runs?from=2026-03-17T01%3A30%3A00Z&state=lost",
		"6 h /runs?from=2026-03-16T20%3A30%3A00Z&state=lost",
		"24 h /runs?from=2026-03-16T02%3A30%3A00Z&state=lost",
		"Last night, 20:00 to 06:00 /runs?from=2026-03-16T20%3A00%3A00Z&state=lost&until=2026-03-17T06%3A00%3A00Z",
		"7 days /runs?from=2026-03-10T02%3A30%3A00Z&state=lost",
		"30 days /runs?from=2026-02-15T02%3A30%3A00Z&state=lost"}
	if !slices.Equal(all, want) || !slices.Equal(here, []string{"All"}) {
		t.Errorf("got %q, current %q, want %q", all, here, want)
	}
	for name, window := range map[string][2]time.Time{
		"Last hour":                  {now.Add(-62 * time.Minute)},
		"Last night, 20:00 to 06:00": {now.Add(-6*time.Hour - 41*time.Minute - 17*time.Second), now.Add(3*time.Hour + 18*time.Minute + 43*time.Second)},
		"24 h":                       {now.Add(-24 * time.Hour)}, "": {now.Add(-3 * time.Hour)},
	} {
		_, here := namesOfLinks(timeSpans(p, now, window[0], window[1]))
		if name == "" && here != nil || name != "" && !slices.Equal(here, []string{name}) {
			t.Errorf("from %s until %s is %q, want %q", window[0], window[1], here, name)
		}
	}
}

// TestTimeFieldsKeepTheRuns checks that the fields of a range with fractions of a second contain
// the whole range.
func TestTimeFieldsKeepTheRuns(t *testing.T) {
	body := flat(get(t, newServer(t, calm()).Handler(), "/runs?from=2026-03-14T03:12:00.25Z&"+
		"until=2026-03-14T03:12:59.75Z").Body.String())
	for field, want := range map[string]string{"from": "2026-03-14T03:12",
		"until": "2026-03-14T03:13"} {
		input := regexp.MustCompile(`<input id="` + field + `"[^>]*value="([^"]*)"`).FindString(body)
		if !strings.HasSuffix(input, `value="`+want+`"`) {
			t.Errorf("the field %s is %s, want %s", field, input, want)
		}
	}
}

func TestFilterChips(t *testing.T) {
	p := param.Set{Values: url.Values{"job": {"a"}, "reason": {"lock_held"},
		"state": {"failed", "skipped"}}}
	f := runFields{Job: "a", Reason: "lock_held", States: []string{"failed", "skipped"}}
	got := filterChips(p, f, stateTabs(p, f.States))
	want := []chip{{"job: a", "/runs?reason=lock_held&state=failed&state=skipped"},
		{"reason: a resource is held", "/runs?job=a&state=failed&state=skipped"},
		{"state: failed, skipped", "/runs?job=a&reason=lock_held"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	f.States = []string{string(jobs.Skipped)}
	if got := filterChips(p, f, stateTabs(p, f.States)); len(got) != 2 {
		t.Errorf("a state with a tab has a chip too: %q", got)
	}
}

func TestStateChips(t *testing.T) {
	p := param.Set{Values: url.Values{"group": {"g"}, "paused": {"yes"}, "after": {"x"}}}
	var here []string
	counts := map[jobFields]int{{}: 9, {Paused: "yes"}: 4, {State: "failed"}: 2}
	links, total := stateChips(p, jobFields{Group: "g", Paused: "yes"}, counts)
	if total != 4 {
		t.Errorf("the list has %d jobs, want those of the current chip", total)
	}
	for _, l := range links {
		if l.Here {
			here = append(here, l.Name)
		}
		if l.Name == "Last run failed" && (l.Path != "/jobs?group=g&state=failed" || l.Jobs != 2 ||
			l.Class != "bad") || l.Name == "Last run lost" && l.Class != "" {
			t.Errorf("%s leads to %s with %d jobs, %q", l.Name, l.Path, l.Jobs, l.Class)
		}
	}
	if !slices.Equal(here, []string{"Paused"}) {
		t.Errorf("current chips are %q, want Paused", here)
	}
}

// TestJobsOfListedRuns counts the listed runs by job, if they did not succeed.
func TestJobsOfListedRuns(t *testing.T) {
	var list []storage.Record
	for _, name := range []string{"c", "b", "a", "b"} {
		list = append(list, storage.Record{Job: name})
	}
	p := param.Set{Values: url.Values{"state": {"failed"}, "before": {"x"}}}
	got := jobCounts(p, runFields{States: []string{"failed", "skipped"}}, list)
	want := []runLink{{Name: "b", Count: "2", Path: "/runs?job=b&state=failed"},
		{Name: "a", Count: "1", Path: "/runs?job=a&state=failed"},
		{Name: "c", Count: "1", Path: "/runs?job=c&state=failed"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, links := range map[string][]runLink{
		"all states": jobCounts(p, runFields{}, list),
		"successes":  jobCounts(p, runFields{States: []string{"failed", "succeeded"}}, list),
		"active":     jobCounts(p, runFields{States: []string{"waiting"}}, list),
		"of a job":   jobCounts(p, runFields{States: []string{"failed"}, Job: "b"}, list),
		"one job":    jobCounts(p, runFields{States: []string{"failed"}}, list[:1]),
	} {
		if links != nil {
			t.Errorf("%s: got %+v, want none", name, links)
		}
	}
	v := runsView{ByJob: make([]runLink, maxByJob+2)}
	if len(v.ByJobShown()) != maxByJob || v.ByJobMore() != 2 {
		t.Errorf("got %d jobs and %d more, want %d and 2", len(v.ByJobShown()), v.ByJobMore(),
			maxByJob)
	}
}

// TestListsSayWhichTimesTheyHave checks the heading of the times of lists: only a list that may
// have active and ended runs names both.
func TestListsSayWhichTimesTheyHave(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	const heading = `<th role="columnheader" scope="col" class="p3">`
	for path, want := range map[string][]string{
		"/":                                 {"Ended", "Ended"},
		"/jobs/rollup-sales":                {"Since", "Ended or since"},
		"/runs":                             {"Ended or since"},
		"/runs?state=lost":                  {"Ended"},
		"/runs?state=skipped&state=missed":  {"Ended"},
		"/runs?state=waiting&state=running": {"Since"},
		"/runs?state=waiting&state=skipped": {"Ended or since"},
	} {
		page := flat(get(t, handler, path).Body.String())
		var got []string
		for _, part := range strings.Split(page, heading)[1:] {
			text, _, _ := strings.Cut(part, "<")
			if slices.Contains([]string{"Ended", "Since", "Ended or since"}, text) {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the headings %q, want %q", path, got, want)
		}
	}
}
