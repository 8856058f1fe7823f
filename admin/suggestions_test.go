package admin

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// suggested returns the options of the datalist with the id.
func suggested(page, id string) (names []string) {
	_, list, _ := strings.Cut(page, `<datalist id="`+id+`">`)
	list, _, _ = strings.Cut(list, "</datalist>")
	for _, match := range regexp.MustCompile(`<option value="([^"]*)">`).FindAllStringSubmatch(
		list, -1) {
		names = append(names, html.UnescapeString(match[1]))
	}
	return names
}

func TestFilterOfRunsSuggestsNames(t *testing.T) {
	o := calm()
	handler := newServer(t, o).Handler()
	page := get(t, handler, "/runs").Body.String()
	h := o.Store.(*history)
	for id, want := range map[string]string{"jobs": h.jobs[0].Name,
		"resources": h.jobs[0].Resources[0].Resource.String(), "replicas": h.replicas[0].Name} {
		if got := suggested(page, id); !slices.Contains(got, want) {
			t.Errorf("%s are %q, want %q among them", id, got, want)
		}
		if !strings.Contains(page, ` list="`+id+`"`) {
			t.Errorf("no field has the list %s", id)
		}
	}
}

// TestFilterOfRunsSuggestsErrors checks that the field of errors and the search field suggest texts
// of the latest errors, and that each text finds its run. Without errors the page has no list.
func TestFilterOfRunsSuggestsErrors(t *testing.T) {
	o := calm()
	if page := get(t, newServer(t, o).Handler(), "/runs").Body.String(); strings.Contains(page,
		`"errors"`) {
		t.Error("the page suggests errors, and no run failed")
	}
	h := o.Store.(*history)
	errors := map[string]string{
		"dial tcp 10.0.0.7:5432: connect: connection refused": "connect: connection refused",
		"exit status 3":                             "exit status",
		"bad state: failed, in job: load <a&b>":     "bad state: failed, in job: load <a&b",
		`no "quoted" text here: a "b" of "c" and d`: "text here: a",
	}
	n := 100
	for text := range errors {
		run := done(n, "rollup-sales", "replica-1", time.Minute, time.Second, jobs.Failed)
		run.Error = text
		h.runs = append(h.runs, run)
		n++
	}
	handler := newServer(t, o).Handler()
	page := get(t, handler, "/runs").Body.String()
	if !strings.Contains(page, ` list="errors"`) {
		t.Error("no field has the list errors")
	}
	suggestedErrors, terms := suggested(page, "errors"), suggested(page, "terms")
	for text, want := range errors {
		if !slices.Contains(suggestedErrors, want) {
			t.Errorf("errors are %q, want %q among them", suggestedErrors, want)
		}
		term, ok := errorTerm(want)
		if !ok || !slices.Contains(terms, term) {
			t.Errorf("the search field does not suggest %q", term)
		}
		to := get(t, handler, "/runs?q="+url.QueryEscape(term)).Header().Get("Location")
		if at, err := url.Parse(to); err != nil || at.Query().Get("error") != want {
			t.Errorf("the search %q leads to %s, want the error %q", term, to, want)
		}
		if found := get(t, handler, to).Body.String(); !strings.Contains(found,
			html.EscapeString(text)) {
			t.Errorf("%s does not find %q", to, text)
		}
	}
}

// TestSuggestionsAreBounded checks that a form of 10,000 jobs suggests the names near the typed
// text.
func TestSuggestionsAreBounded(t *testing.T) {
	handler := newServer(t, tenThousand()).Handler()
	for typed, want := range map[string]string{
		"": "tenant-00000/load", "tenant-07*": "tenant-07000/load",
		"tenant-09999/load": "tenant-00000/load", "zzz": "tenant-00000/load",
	} {
		page := get(t, handler, "/runs?job="+url.QueryEscape(typed)).Body.String()
		names := suggested(page, "jobs")
		if len(names) != maxSuggested || names[0] != want {
			t.Errorf("after %q, %d names are suggested, first %q, want %q", typed,
				len(names), names[:min(1, len(names))], want)
		}
		if groups := suggested(page, "groups"); len(groups) != 20 || groups[3] != "region-03" {
			t.Errorf("groups are %q", groups)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("table-%03d", i))
	}
	if got := nearest(many, "table-5"); len(got) != maxSuggested || got[0] != "table-500" {
		t.Errorf("nearest to table-5 are %q", got)
	}
	if got := nearest(many, "x"); len(got) != maxSuggested || got[maxSuggested-1] != "table-999" {
		t.Errorf("nearest to x are %q", got)
	}
}

// TestSuggestionsNeedViewOnEverything checks that a user who may see one group is not shown the
// names of others, and sees only runs of the group.
func TestSuggestionsNeedViewOnEverything(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		role, path string
		want       int
		suggests   bool
	}{
		{"viewer", "/runs?job=rollup-sales", 200, true},
		{"sales", "/runs?job=rollup-sales", 200, false},
		{"sales", "/runs?group=sales", 200, false},
		{"sales", "/runs?group=other", 403, false},
		{"sales", "/runs?job=rollup*", 403, false},
		{"sales", "/runs?job=rollup*&group=sales", 200, false},
		{"sales", "/runs?job=prune-logs&group=sales", 403, false},
		// a pattern of a role is not compared with a prefix
		{"others", "/runs?job=nothing-*", 403, false},
		{"others", "/api/v1/runs?job=nothing-*", 403, false},
		{"viewer", "/runs?job=rollup*", 200, true},
	} {
		reply := accesstest.Ask(handler, http.MethodGet, test.path, roleToken(test.role))
		if reply.Code != test.want {
			t.Errorf("%s %s: got %d, want %d", test.role, test.path, reply.Code, test.want)
		}
		if names := suggested(reply.Body.String(), "jobs"); (len(names) > 0) != test.suggests {
			t.Errorf("%s %s suggests %q, want names: %t", test.role, test.path, names,
				test.suggests)
		}
	}
}

// TestRunsOfAGroupOrPrefix checks the filters of the page and of the API.
func TestRunsOfAGroupOrPrefix(t *testing.T) {
	o := tenThousand()
	handler := newServer(t, o).Handler()
	for query, want := range map[string]storage.RunFilter{
		"job=tenant-0000*": {JobPrefix: "tenant-0000"}, "group=region-03": {Group: "region-03"},
		"job=tenant-00003%2Fload&group=region-03": {Job: "tenant-00003/load", Group: "region-03"},
		"job=a*b": {Job: "a*b"}, "job=*": {}, "error=connection+refused": {Error: "connection refused"},
	} {
		for _, path := range []string{"/runs?", "/api/v1/runs?"} {
			get(t, handler, path+query)
			h := o.Store.(*history)
			got := h.filters[len(h.filters)-1]
			if got.Job != want.Job || got.JobPrefix != want.JobPrefix || got.Group != want.Group ||
				got.Error != want.Error {
				t.Errorf("%s%s asks for %+v, want %+v", path, query, got, want)
			}
		}
	}
	body := flat(get(t, handler, "/runs?job=tenant-0000*&group=region-03").Body.String())
	for _, want := range []string{">job: tenant-0000*</bdi>", ">group: region-03</bdi>",
		`href="/runs?group=region-03"`, `name="group" value="region-03"`, "tenant-00003/load"} {
		if !strings.Contains(body, want) {
			t.Errorf("page lacks %s", want)
		}
	}
	if strings.Contains(body, ">tenant-00004/load</a>") {
		t.Error("page has a run of another group")
	}
}
