package admin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// grouped is a cluster with jobs in groups and others, of which one in "night" has failed and one
// in "sync" waits. The group "solo" has the name of a job.
func grouped() Options {
	h := &history{now: noon,
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 0)}}
	for i, j := range []struct {
		name, group string
		state       jobs.State
	}{
		{"backup", "night", jobs.Succeeded}, {"export", "", jobs.Succeeded},
		{"rebuild", "night", jobs.Failed}, {"refunds", "billing", jobs.Succeeded},
		{"charges", "billing", jobs.Succeeded}, {"solo", "", ""}, {"solo-1", "solo", ""},
		{"vendors", "sync", jobs.Waiting}, {"zones", "", jobs.Skipped},
	} {
		view := job(j.name, "0 2 * * *", j.name)
		view.Group = j.group
		h.jobs = append(h.jobs, view)
		switch {
		case j.state == jobs.Waiting:
			h.runs = append(h.runs, waiting(30+i, j.name, time.Minute, "table:public/"+j.name,
				blocker()))
		case j.state != "":
			h.runs = append(h.runs,
				done(30+i, j.name, "replica-1", time.Hour, time.Second, j.state))
		}
	}
	slices.SortFunc(h.runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	return options(h)
}

// sectionsOf returns the sections of a page of jobs: names of jobs, and groups with their jobs. A
// star marks an open group.
func sectionsOf(body string) (sections []string) {
	row := regexp.MustCompile(`<tbody[^>]*class="kids">|<tbody|<th role="rowheader"[^>]*>` +
		`(?:<bdi class="name">|<a class="name" href="/jobs\?group=|<a [^>]*href="/jobs/)([^"<]*)` +
		`|class="unfold"[^>]*data-kept( checked)?`)
	kids := false
	for _, match := range row.FindAllStringSubmatch(body, -1) {
		switch last := len(sections) - 1; {
		case strings.HasPrefix(match[0], "<tbody"):
			kids = strings.Contains(match[0], "kids")
		case strings.HasPrefix(match[0], "class"):
			sections[last] += ":"
			if match[2] != "" {
				sections[last] += "*"
			}
		case kids:
			sections[last] += " " + match[1]
		default:
			sections = append(sections, match[1])
		}
	}
	return sections
}

// TestJobsFoldIntoGroups checks the list without a filter: groups are at the places of their names,
// and those with a job that failed or waits are open. With a filter the list has no groups.
func TestJobsFoldIntoGroups(t *testing.T) {
	handler := newServer(t, grouped()).Handler()
	for path, want := range map[string]string{
		"/jobs": "billing: charges refunds, export, night:* backup rebuild, solo, solo: solo-1, " +
			"sync:* vendors, zones",
		"/jobs?group=night": "backup, rebuild",
		"/jobs?text=o":      "export, solo, solo-1, vendors, zones",
	} {
		body := flat(get(t, handler, path).Body.String())
		if got := strings.Join(sectionsOf(body), ", "); got != want {
			t.Errorf("%s lists %s\nwant %s", path, got, want)
		}
	}
	body := flat(get(t, handler, "/jobs").Body.String())
	for _, want := range []string{`<span class="badge failed">1 failed</span>`,
		`<span class="badge waiting">1 waiting</span>`, `<span class="badge succeeded">2 succeeded`,
		`<h1>Jobs <span class="count">9</span></h1>`, `2 jobs<span class="hidden"> of night`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestPagesOfGroups follows the links of pages of two entries, forward and back. A group and a job
// with the same name are on the same page.
func TestPagesOfGroups(t *testing.T) {
	handler := newServer(t, grouped()).Handler()
	pages := func(first, rel string) (all []string) {
		link := regexp.MustCompile(`href="([^"]*)" rel="` + rel + `"`)
		for path := first; path != ""; {
			body := flat(get(t, handler, path).Body.String())
			var names []string
			for _, s := range sectionsOf(body) {
				name, _, _ := strings.Cut(s, ":")
				names = append(names, name)
			}
			all = append(all, strings.Join(names, "+"))
			path = ""
			if match := link.FindStringSubmatch(body); match != nil {
				path = strings.ReplaceAll(match[1], "&amp;", "&")
			}
		}
		return all
	}
	forth := pages("/jobs?limit=2", "next")
	if got, want := strings.Join(forth, ", "), "billing+export, night+solo+solo, sync+zones"; got !=
		want {
		t.Errorf("pages are %s, want %s", got, want)
	}
	back := pages("/jobs?limit=2&before=zz", "prev")
	slices.Reverse(back)
	if got, want := strings.Join(back, ", "), "billing, export+night, solo+solo, sync+zones"; got !=
		want {
		t.Errorf("pages back are %s, want %s", got, want)
	}
}

// TestChipsCountJobs follows each chip. Its list must have as many jobs as the chip says, also
// within a group, a source and a text.
func TestChipsCountJobs(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	chip := regexp.MustCompile(`<a class="chip" href="([^"]*)"[^>]*>([^<]*?) ?` +
		`<span class="n[^"]*">(\d+)</span>`)
	rows := regexp.MustCompile(`<tr role="row" data-key="job-`)
	seen := 0
	for _, path := range []string{"/jobs", "/jobs?group=warehouse", "/jobs?source=store",
		"/jobs?text=ROLLUP", "/jobs?text=sums"} {
		chips := chip.FindAllStringSubmatch(flat(get(t, handler, path).Body.String()), -1)
		if len(chips) < 10 {
			t.Fatalf("%s has the chips %q", path, chips)
		}
		for _, c := range chips {
			list := get(t, handler, strings.ReplaceAll(c[1], "&amp;", "&")).Body.String()
			n, _ := strconv.Atoi(c[3])
			if got := len(rows.FindAllString(list, -1)); got != n {
				t.Errorf("%s: %s has %s jobs, its list has %d", path, c[2], c[3], got)
			}
			if seen += n; n == 0 && strings.Contains(c[0], "bad") {
				t.Errorf("%s: %s is marked without a job", path, c[2])
			}
		}
	}
	if seen < 20 {
		t.Errorf("all chips have %d jobs, want more", seen)
	}
}

// stateCounter counts the queries that read the last run of each job.
type stateCounter struct {
	*history
	queries int
}

func (s *stateCounter) JobStates(ctx context.Context) ([]storage.JobState, error) {
	s.queries++
	return s.history.JobStates(ctx)
}

// TestGroupsAreCheap checks what the page reads of 10,000 jobs in 20 groups: one query of all
// states for several pages, and the rows of at most 100 jobs.
func TestGroupsAreCheap(t *testing.T) {
	o := tenThousand()
	store := &stateCounter{history: o.Store.(*history)}
	o.Store = store
	handler := newServer(t, o).Handler()
	var body string
	for range 3 {
		body = flat(get(t, handler, "/jobs").Body.String())
	}
	rows := strings.Count(body, `<tr role="row" data-key="job-`)
	groups := strings.Count(body, `<tr role="row" data-key="group-`)
	if store.queries != 1 || rows != maxGrouped || groups != 20 {
		t.Errorf("%d queries, %d jobs and %d groups, want 1, %d and 20", store.queries, rows,
			groups, maxGrouped)
	}
	for _, f := range store.jobFilters {
		if most := 100 + 2; f.Limit > most {
			t.Errorf("the page asks for %d jobs, want at most %d", f.Limit, most)
		}
	}
	for _, want := range []string{"20 of 500 jobs", "Group of 500 jobs"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestGroupsUnfoldInABrowser opens a group with the keyboard, and without scripts with a click.
// Then a group appears above it. An update keeps the group open, and the focus at its box.
func TestGroupsUnfoldInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, actionOptions(grouped()))
	const billing = `tr:has([href="/jobs?group=billing"]) .unfold`
	visible := func(name string) bool {
		return evaluate[bool](t, window, `[...document.querySelectorAll("tbody .name, tbody a")]`+
			`.find((e) => e.textContent.trim() === "`+name+`").checkVisibility()`)
	}
	for _, s := range []screen{screens()[0], screens()[3]} {
		visit(t, window, s, site.url+"/jobs")
		if visible("refunds") || !visible("rebuild") || !visible("vendors") || !visible("export") {
			t.Fatalf("%s: at first, want the jobs of the groups with a failure and a waiting run",
				s.Name)
		}
		evaluate[bool](t, window, "(window.box = document.querySelector(`"+billing+
			"`), box.focus(), true)")
		press(t, window, " ")
		if !visible("refunds") {
			t.Errorf("%s: the group stays closed", s.Name)
		}
		added := job("aa-"+s.Name, "0 3 * * *")
		added.Group = "aa-" + s.Name
		site.change(func() {
			site.jobs = append(site.jobs, added)
			site.now = site.now.Add(2 * time.Minute) // the page caches the groups
		})
		until(t, window, fmt.Sprintf(`document.body.textContent.includes(%q)`, added.Group))
		if !visible("refunds") || !evaluate[bool](t, window,
			`box.isConnected && box.checked && document.activeElement === box`) {
			t.Errorf("%s: an update closes the group or takes the focus", s.Name)
		}
	}
	if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	visit(t, window, screens()[0], site.url+"/jobs")
	if visible("refunds") {
		t.Fatal("without scripts, the group is open at first")
	}
	if err := chromedp.Do(window, chromedp.Click(billing+" + label")); err != nil {
		t.Fatal(err)
	}
	if !visible("refunds") {
		t.Error("without scripts, the group stays closed")
	}
}
