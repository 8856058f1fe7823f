package admin

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// runLink is a link to the list of runs with another filter.
type runLink struct {
	Name  string
	Path  string
	Count string // number of runs, or "" if it is not known
	Title string // of the number, or ""
	Class string // of the count
	Here  bool   // the list has this filter
	Night bool   // the script fits it to the night of the viewer
}

// chip is a set filter, with the address of the list without it.
type chip struct{ Text, Path string }

// runsAt returns the address of the first page of the list with other parameters.
func runsAt(p param.Set, pairs ...string) string {
	return p.With("/runs", append(pairs, "before", "", "after", "")...)
}

// runTab is a group of states with a tab.
type runTab struct {
	name   string
	class  string // of the number of its runs
	states []jobs.State
}

// runTabs returns the states of runs, those that need attention first.
func runTabs() []runTab {
	return []runTab{
		{"All", "", nil}, {"Failed or skipped", "", records.UnsuccessfulStates()},
		{"Failed or lost", "bad", storage.FailedStates()},
		{"Running", "", []jobs.State{jobs.Running}}, {"Waiting", "", []jobs.State{jobs.Waiting}},
		{"Failed", "bad", []jobs.State{jobs.Failed, jobs.TimedOut}},
		{"Skipped", "warn", []jobs.State{jobs.Skipped}}, {"Lost", "bad", []jobs.State{jobs.Lost}},
		{"Missed", "warn", []jobs.State{jobs.Missed}},
		{"Cancelled", "", []jobs.State{jobs.Cancelled}},
		{"Succeeded", "", []jobs.State{jobs.Succeeded}},
	}
}

// stateTabs links the states of runs.
func stateTabs(p param.Set, states []string) []runLink {
	shown := slices.Sorted(slices.Values(states))
	var links []runLink
	for _, tab := range runTabs() {
		var names []string
		for _, state := range tab.states {
			names = append(names, string(state))
		}
		path := runsAt(p, "state", strings.Join(names, ","))
		links = append(links, runLink{Name: tab.name, Path: path,
			Here: slices.Equal(shown, slices.Sorted(slices.Values(names)))})
	}
	return links
}

// timeSpans links ranges of time that end now, and the last night in UTC: from 20:00 to 06:00.
func timeSpans(p param.Set, now, from, until time.Time) []runLink {
	links := []runLink{{Name: "All", Path: runsAt(p, "from", "", "until", ""),
		Here: from.IsZero() && until.IsZero()}}
	for _, span := range []struct {
		name   string
		length time.Duration
	}{{"Last hour", time.Hour}, {"6 h", 6 * time.Hour}, {"24 h", 24 * time.Hour},
		{"7 days", 7 * 24 * time.Hour}, {"30 days", 30 * 24 * time.Hour}} {
		// the beginning of a quarter of an hour, because runs are counted by quarters
		begin := storage.QuarterOf(now.Add(-span.length))
		// a page that has been open for a while still shows about this range
		off := from.Sub(begin).Abs()
		links = append(links, runLink{Name: span.name,
			Path: runsAt(p, "from", begin.Format(time.RFC3339), "until", ""),
			Here: until.IsZero() && off <= max(span.length/20, storage.QuarterLength)})
	}
	begin, end := charts.LastNight(now)
	return slices.Insert(links, 4, runLink{Name: "Last night, 20:00 to 06:00", Night: true,
		Path: runsAt(p, "from", begin.Format(time.RFC3339), "until", end.Format(time.RFC3339)),
		Here: from.Equal(begin) && until.Equal(end)})
}

// filterChips returns the filters that are set, apart from the time and from states that have a
// tab.
func filterChips(p param.Set, f runFields, tabs []runLink) []chip {
	var chips []chip
	add := func(name, value, text string) {
		if value != "" {
			chips = append(chips, chip{text, runsAt(p, name, "")})
		}
	}
	add("job", f.Job, "job: "+f.Job)
	add("group", f.Group, "group: "+f.Group)
	add("resource", f.Resource, "table or resource: "+f.Resource)
	if slices.Contains(reasons.All(), jobs.Reason(f.Reason)) {
		add("reason", f.Reason, "reason: "+words.ShortReason(jobs.Reason(f.Reason)))
	}
	add("replica", f.Replica, "replica: "+f.Replica)
	add("error", f.Error, "error: "+f.Error)
	add("backfill", f.Backfill, "backfill: "+pages.Short(f.Backfill))
	if !slices.ContainsFunc(tabs, func(l runLink) bool { return l.Here }) {
		states := strings.ReplaceAll(strings.Join(f.States, ", "), "_", " ")
		add("state", states, "state: "+states)
	}
	return chips
}

// maxByJob is the number of jobs that the list links.
const maxByJob = 6

// jobCounts links the jobs of the listed runs with the number of their runs, the most first. It
// returns nothing unless the list is of runs that did not succeed, of more than one job.
func jobCounts(p param.Set, f runFields, runs []storage.Record) (links []runLink) {
	unsuccessful := func(state string) bool {
		return slices.Contains(records.UnsuccessfulStates(), jobs.State(state))
	}
	if f.Job != "" || len(f.States) == 0 ||
		slices.ContainsFunc(f.States, func(state string) bool { return !unsuccessful(state) }) {
		return nil
	}
	counts := make(map[string]int)
	for _, run := range runs {
		counts[run.Job]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	if len(names) < 2 {
		return nil
	}
	for _, name := range names {
		links = append(links, runLink{Name: name, Path: runsAt(p, "job", name),
			Count: strconv.Itoa(counts[name])})
	}
	return links
}

// pageSizes links lists with other numbers of runs on a page.
func pageSizes(p param.Set, limit int) (links []runLink) {
	for _, size := range []int{pageRuns, 100, 200} {
		name := strconv.Itoa(size)
		value := name
		if size == pageRuns {
			value = ""
		}
		links = append(links, runLink{Name: name, Path: runsAt(p, "limit", value),
			Here: size == limit})
	}
	return links
}
