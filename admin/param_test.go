package admin

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pageOf returns the page whose JSON twin has this path, or "" if the path is not of the API.
func pageOf(path string) string {
	if plain, isAPI := strings.CutPrefix(path, "/api/v1"); isAPI {
		return plain
	}
	return ""
}

// TestWrongParametersAreNamed checks that pages and their JSON twins refuse an invalid parameter
// with status 400 and an error that names the parameter and the allowed values.
func TestWrongParametersAreNamed(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for query, want := range map[string]string{
		"/api/v1/jobs?state=done":           `state is "done", expected one of waiting, running,`,
		"/api/v1/jobs?state=failed&state=x": `state is given 2 times, expected once`,
		"/api/v1/jobs?source=file":          `source is "file", expected one of config, store`,
		"/api/v1/jobs?paused=maybe":         `paused is "maybe", expected one of yes, no`,
		"/api/v1/jobs?limit=1001":           `limit is "1001", expected a number from 1 to 1000`,
		"/api/v1/jobs?text=%00":             `text has a control character`,
		"/api/v1/jobs?text=%E2%80%AE":       `text has a control character`,
		"/api/v1/jobs?after=%ff":            `after is not UTF-8`,
		"/api/v1/jobs?group=a&group=b":      `group is given 2 times, expected once`,
		"/api/v1/jobs?name=a":               `parameter "name" is unknown, expected some of text, group,`,
		"/api/v1/jobs?text=" +
			long: `text has 1001 bytes, expected at most 1000`,
		"/api/v1/jobs/rollup-sales?x=1":                             `parameter "x" is unknown`,
		"/api/v1/runs?reason=because":                               `reason is "because", expected one of lock_held,`,
		"/api/v1/runs?from=yesterday":                               `from is "yesterday", expected a timestamp such as 2026-01-31T09:00:00Z`,
		"/api/v1/runs?until=0000-01-01":                             `until is "0000-01-01", expected a timestamp`,
		"/api/v1/runs?resource=a%2F%2Fb":                            `resource is "a//b", expected a table such as public/orders`,
		"/api/v1/runs?after=7":                                      `after is "7", expected a run's id, a UUID`,
		"/api/v1/runs?job=a%0Ab":                                    `job has a control character`,
		"/api/v1/search?q=%00":                                      `q has a control character`,
		"/api/v1/search?text=a":                                     `parameter "text" is unknown, expected some of q`,
		"/api/v1/agenda?span=1y":                                    `span is "1y", expected one of 1h, 6h, 24h, 7d`,
		"/api/v1/agenda?conflicts=no":                               `conflicts is "no", expected one of yes`,
		"/api/v1/agenda?skip=x":                                     `skip is "x", expected a number`,
		"/api/v1/grid?span=1h":                                      `span is "1h", expected one of 6h, 24h, 7d, 30d`,
		"/api/v1/grid?until=soon":                                   `until is "soon", expected a timestamp`,
		"/api/v1/grid?limit=1":                                      `parameter "limit" is unknown, expected some of span, until, only, text,`,
		"/api/v1/runs/x":                                            `id is "x", expected a run's id, a UUID`,
		"/api/v1/replicas?x=1":                                      `parameter "x" is unknown`,
		"/api/v1/audit?action=eat":                                  `action is "eat", expected one of pause, resume,`,
		"/api/v1/audit?before=2026":                                 `before is "2026", expected a value from a link to another page`,
		"/api/v1/audit?target=%00":                                  `target has a control character`,
		"/api/v1/locks/timeline?skip=-1":                            `skip is "-1", expected a number from 0 to 1000000`,
		"/api/v1/locks/timeline?span=1y":                            `span is "1y", expected one of 15m, 1h, 6h, 24h, 7d`,
		"/api/v1/locks/timeline?resource=a%2F%2Fb":                  `resource is "a//b", expected a table such as public/orders`,
		"/api/v1/grid?until=9999-12-31T23:59:59Z":                   `until is "9999-12-31T23:59:59Z", expected a timestamp`,
		"/api/v1/locks/timeline?from=9999-12-31T23:59:50Z":          `from is "9999-12-31T23:59:50Z", expected a timestamp`,
		"/api/v1/locks/timeline?until=soon":                         `until is "soon", expected a timestamp`,
		"/api/v1/locks/contention?from=2026-01-01&until=2027-01-01": `until is 365 d after from, expected between 10 s and 31 d`,
		"/api/v1/locks/contention?skip=1":                           `parameter "skip" is unknown, expected some of from, until, span, resource`,
		"/api/v1/locks/upcoming?resource=%00":                       `resource has a control character`,
		"/api/v1/locks/upcoming?span=1h":                            `parameter "span" is unknown, expected some of resource`,
		"/api/v1/audit?before=" +
			auditNoUUID: `expected a value from a link to another page`,
		"/api/v1/audit?actor=" +
			long[:storage.MaxNameBytes+1]: `actor: found 201 bytes, expected at most 200`,
	} {
		for _, path := range []string{query, pageOf(query)} {
			reply := get(t, handler, path)
			body := html.UnescapeString(reply.Body.String())
			if reply.Code != http.StatusBadRequest ||
				!strings.Contains(strings.ReplaceAll(body, `\"`, `"`), want) {
				t.Errorf("%s: %d, want 400 and %q in\n%s", path, reply.Code, want, body)
			}
		}
	}
}

var (
	long        = strings.Repeat("x", param.MaxTextLength+1)
	auditNoUUID = "2026-03-14T03:12:15.000000Z_" + strings.Repeat("z", 36)
)

// TestEmptyPagesLinkTheFirst checks that an empty page after the first page of a list does not say
// that the list is empty, and links the first page.
func TestEmptyPagesLinkTheFirst(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	runs := answered[[]storage.Record](t, get(t, handler, "/api/v1/runs?limit=1000"), 200)
	ended := answered[[]storage.Backfill](t, get(t, handler, "/api/v1/backfills"), 200)
	oldestRun, last := runs[len(runs)-1].ID.String(), ended[len(ended)-1]
	for path, first := range map[string]string{
		"/jobs?sort=name&skip=5000":                                        "/jobs?sort=name",
		"/jobs?after=zzz":                                                  "/jobs",
		"/jobs?text=rollup&after=zzz":                                      "/jobs?text=rollup",
		"/runs?before=" + oldestRun:                                        "/runs",
		"/runs?state=failed&before=" + oldestRun:                           "/runs?state=failed",
		"/grid?after=zzz":                                                  "/grid",
		"/audit?before=" + param.EncodeCursor(time.Unix(0, 0), id(1)):      "/audit",
		"/backfills?before=" + param.EncodeCursor(last.CreatedAt, last.ID): "/backfills",
	} {
		body := flat(get(t, handler, path).Body.String())
		want := `This page of the list is empty. <a href="` + html.EscapeString(first) + `">`
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", path, want)
		}
	}
	for _, path := range []string{"/jobs?text=nothing&after=&before=&skip=", "/runs?job=nothing"} {
		body := get(t, handler, path).Body.String()
		if strings.Contains(body, "is empty") || !strings.Contains(body, "match.") {
			t.Errorf("%s does not say that nothing matches", path)
		}
	}
}

// TestEmptyFieldsAreIgnored checks that an empty parameter has no effect, because a form sends all
// of its fields.
func TestEmptyFieldsAreIgnored(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for _, path := range []string{
		"/jobs?text=&group=&state=&source=&paused=&limit=&after=&before=",
		"/runs?job=&state=&reason=&replica=&resource=&from=&until=&limit=&before=&after=",
		"/audit?actor=&action=&target=&limit=&before=",
		"/locks/timeline?from=&until=&span=&resource=&skip=", "/locks/upcoming?resource=",
		"/grid?span=&until=&text=&group=&after=&before=", "/search?q=",
		"/agenda?span=&text=&conflicts=&skip=",
	} {
		for _, path := range []string{path, "/api/v1" + path} {
			if reply := get(t, handler, path); reply.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", path, reply.Code, reply.Body)
			}
		}
	}
}

func TestTimesOfParameters(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-03-14T03:12:15Z": noon, "2026-03-14T04:12:15+01:00": noon,
		"2026-03-14T03:12:15": noon, "2026-03-14 03:12:15": noon,
		"2026-03-14T03:12": noon.Add(-15 * time.Second),
		"2026-03-14":       noon.Truncate(24 * time.Hour), "": {},
	} {
		got, err := param.Set{Values: url.Values{"from": {text}}}.Time("from")
		if err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestLastTimesAreShown checks ranges that end after the last time that a parameter can have.
func TestLastTimesAreShown(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for _, path := range []string{"/grid?span=30d&until=9998-12-31T23:59:59Z",
		"/locks/timeline?span=7d&from=9998-12-31T23:59:59Z"} {
		for _, path := range []string{path, "/api/v1" + path} {
			if reply := get(t, handler, path); reply.Code != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200", path, reply.Code, reply.Body)
			}
		}
	}
}

// TestPagesForwardAndBackward follows the links of each list to its end and back. Both directions
// must show the same items, each once.
func TestPagesForwardAndBackward(t *testing.T) {
	t.Parallel()
	for path, of := range map[string]string{
		"/jobs?limit=70&group=region-03": `href="(/jobs/[^"]*)"`,
		"/runs?limit=150":                `<th role="rowheader" scope="row" class="whole"><a href="([^"]*)"`,
	} {
		o := tenThousand()
		h := o.Store.(*history)
		h.runs = h.runs[:1000]
		handler := newServer(t, o).Handler()
		items, link := regexp.MustCompile(of),
			regexp.MustCompile(`href="([^"]*)" rel="(next|prev)"`)
		walk := func(path, rel string) (pages [][]string, last string) {
			for path != "" {
				body := get(t, handler, path).Body.String()
				var page []string
				for _, match := range items.FindAllStringSubmatch(body, -1) {
					page = append(page, match[1])
				}
				pages, last, path = append(pages, page), path, ""
				for _, match := range link.FindAllStringSubmatch(body, -1) {
					if match[2] == rel {
						path = html.UnescapeString(match[1])
					}
				}
			}
			return pages, last
		}
		forth, last := walk(path, "next")
		back, first := walk(last, "prev")
		slices.Reverse(back)
		if len(forth) < 5 || !slices.EqualFunc(forth, back, slices.Equal) {
			t.Errorf("%s: %d pages on, %d back", path, len(forth), len(back))
		}
		seen := make(map[string]bool)
		for _, item := range slices.Concat(forth...) {
			if seen[item] {
				t.Errorf("%s: %s is there twice", path, item)
			}
			seen[item] = true
		}
		if body := get(t, handler, first).Body.String(); strings.Contains(body, `rel="prev"`) {
			t.Errorf("%s: the beginning leads back further", path)
		}
	}
}

// TestTwinsLinkForwardAndBackward does the same with the JSON twins.
func TestTwinsLinkForwardAndBackward(t *testing.T) {
	t.Parallel()
	handler := newServer(t, tenThousand()).Handler()
	for _, path := range []string{"/api/v1/jobs?limit=100&group=region-03",
		"/api/v1/runs?limit=1000"} {
		var forth, back []string
		last := path
		for next := path; next != ""; {
			reply := get(t, handler, next)
			forth, last = append(forth, reply.Body.String()), next
			next = linkTo(reply, "next")
		}
		if len(forth) < 5 {
			t.Errorf("%s: %d pages", path, len(forth))
		}
		for prev := linkTo(get(t, handler, last), "prev"); prev != ""; {
			reply := get(t, handler, prev)
			if reply.Body.String() == "[]\n" {
				// The API shows whether there are more rows only when they are requested.
				break
			}
			back = append(back, reply.Body.String())
			prev = linkTo(reply, "prev")
		}
		slices.Reverse(back)
		if !slices.Equal(forth[:len(forth)-1], back) &&
			!strings.HasSuffix(forth[len(forth)-1], "[]\n") {
			t.Errorf("%s: %d pages on, %d back", path, len(forth), len(back))
		}
	}
}

// TestFiltersOfJobsReachTheStore checks that every parameter reaches the store.
func TestFiltersOfJobsReachTheStore(t *testing.T) {
	o := busy()
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	get(t, handler,
		"/api/v1/jobs?text=a&group=b&state=failed&source=store&paused=no&after=c&before=d&limit=5")
	no := false
	got := h.jobFilters[len(h.jobFilters)-1]
	if got.Paused == nil || *got.Paused != no {
		t.Errorf("paused is %v", got.Paused)
	}
	got.Paused = nil
	want := storage.JobFilter{Text: "a", Group: "b", State: jobs.Failed,
		Source: storage.FromStore, After: "c", Before: "d", Limit: 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the filter differs (-want +got):\n%s", diff)
	}
	get(t, handler,
		"/api/v1/runs?job=a&state=failed&reason=panic&replica=b&resource=public%2Forders&"+
			"from=2026-03-14&until=2026-03-15&limit=5")
	f := h.filters[len(h.filters)-1]
	if f.Resource == nil || f.Resource.Key() != "table:public/orders" {
		t.Errorf("resource is %v", f.Resource)
	}
	if f.Job != "a" || f.Reason != reasons.Panic || f.Replica != "b" || f.Limit != 5 ||
		f.From.Day() != 14 || f.Until.Day() != 15 ||
		!slices.Equal(f.States, []jobs.State{jobs.Failed}) {
		t.Errorf("got filter %+v", f)
	}
}

// TestInvalidNames checks that a name that no job can have is reported as not found, or as an
// invalid parameter, and not as an error of the store.
func TestInvalidNames(t *testing.T) {
	o, _ := limitedOptions(t)
	o.Roles = append(o.Roles, permission.Role{Name: "any", Grant: permission.Grant{
		Permissions: permission.All(), Jobs: []string{"*"}}})
	o.Tokens = append(o.Tokens, Token{Name: "any", Role: "any",
		Hash: accesstest.Sum("any-token")})
	handler := newServer(t, o).Handler()
	for _, name := range []string{"%00", "a%00b", "%ff"} {
		for path, want := range map[string]int{
			"/jobs/" + name: 404, "/api/v1/jobs/" + name: 404,
			"/jobs/" + name + "/explain": 404, "/api/v1/jobs/" + name + "/explain": 404,
			"/jobs/" + name + "/trigger": 404,
			"/runs?job=" + name:          400, "/api/v1/runs?job=" + name: 400,
			"/backfills?job=" + name: 400, "/api/v1/backfills?job=" + name: 400,
		} {
			for _, role := range []string{"operator", "any"} {
				reply := accesstest.Ask(handler, http.MethodGet, path, roleToken(role))
				if reply.Code != want {
					t.Errorf("%s as %s: got %d, want %d", path, role, reply.Code, want)
				}
			}
		}
	}
}

// FuzzParameters sends any text as the query of each list and page. The response must be a page,
// JSON or a reported mistake, and must not contain the text as markup.
func FuzzParameters(f *testing.F) {
	for _, query := range []string{"state=failed", "before=x&after=y", "from=2026-01-01&until=",
		"text=%3Cscript%3E", "a;b", "limit=-1", "resource=slot:a", "%"} {
		f.Add(query)
	}
	server, err := New(busy())
	if err != nil {
		f.Fatal(err)
	}
	handler := server.Handler()
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/jobs", "/runs", "/audit", "/replicas", "/", "/locks",
			"/jobs/heartbeat", "/api/v1/jobs", "/api/v1/runs", "/api/v1/audit"} {
			target := path + "?" + (&url.URL{RawQuery: query}).RawQuery
			if _, err := url.ParseRequestURI(target); err != nil ||
				strings.ContainsAny(query, " \r\n\t#") {
				return
			}
			reply := get(t, handler, target)
			if reply.Code != http.StatusOK && reply.Code != http.StatusBadRequest {
				t.Errorf("%s: got %d %s, want 400", target, reply.Code, reply.Body)
			}
			if body := reply.Body.String(); strings.Contains(body, "<script>") ||
				strings.Contains(body, "<img") {
				t.Errorf("%s: got markup of the request in %s", target, body)
			}
		}
	})
}
