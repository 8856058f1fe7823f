package admin

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outline returns a tree as text, with a mark for held nodes (*) and the number of waiters.
func outline(nodes []*locks.ResourceNode, indent string) string {
	var out strings.Builder
	for _, n := range nodes {
		out.WriteString(indent + n.Name)
		if n.State == locks.HeldItself {
			out.WriteString(" *")
		}
		if n.State == locks.HeldAbove {
			out.WriteString(" ^")
		}
		if len(n.Waiting) > 0 {
			fmt.Fprintf(&out, " %d wait", len(n.Waiting))
		}
		if n.More() > 0 && n.Resource != "" {
			fmt.Fprintf(&out, " +%d", n.More())
		}
		out.WriteString("\n" + outline(n.Beneath, indent+"  "))
	}
	return out.String()
}

// treeAt returns the tree from the API with its counts restored.
func treeAt(t *testing.T, handler http.Handler, query string) locks.ResourceTree {
	t.Helper()
	reply := get(t, handler, "/api/v1/locks/tree"+query)
	var tree locks.ResourceTree
	if err := json.Unmarshal(reply.Body.Bytes(), &tree); err != nil || reply.Code != http.StatusOK {
		t.Fatalf("%s: got %d %v %s, want 200", query, reply.Code, err, reply.Body)
	}
	return tree
}

// TestTreeShowsBlockersFirst checks the order of schemas, tables, slots and a job that waits for
// its own name.
func TestTreeShowsBlockersFirst(t *testing.T) {
	server := newServer(t, contention())
	tree, err := server.reader.lock.ResourceTree(t.Context(), noon, locks.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Tables
  public
    orders * 3 wait
    customers *
    events *
    sales_rollup *
    logs
    orders_hourly
    vendors
Resources with slots
  vendor-api *
Jobs that wait for their own earlier run
  rollup-sales * 1 wait
`
	if got := outline(tree.Kinds, ""); got != want {
		t.Errorf("the tree is\n%s\nwant\n%s", got, want)
	}
	if tree.Known != 9 || tree.Held != 6 || tree.Waiting != 4 {
		t.Errorf("%d known, %d held, %d wait", tree.Known, tree.Held, tree.Waiting)
	}
}

// TestTreeOfLayers checks tables below a locked schema, and a level of the tree with only one name.
func TestTreeOfLayers(t *testing.T) {
	o := layers()
	h := o.Store.(*history)
	h.runs = append(h.runs, waiting(9, "load-orders", 1, "warehouse/orders", h.runs[1]))
	h.jobs = append(h.jobs, job("deep", "@daily", "lake.raw"))
	tree, err := newServer(t, o).reader.lock.ResourceTree(t.Context(), noon, locks.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Tables
  warehouse *
    orders ^ 1 wait
  mart
    facts *
  lake/raw
`
	if got := outline(tree.Kinds, ""); got != want {
		t.Errorf("the tree is\n%s\nwant\n%s", got, want)
	}
}

func TestTreeIsFiltered(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	for query, want := range map[string]int{
		"": 9, "?text=ORD": 2, "?text=rollup-sales": 3, "?state=held": 6, "?state=waiting": 2,
		"?state=free": 3, "?under=public": 7,
		"?under=public%2Forders": 1, "?text=prune&state=held": 1, "?under=slot:vendor-api": 1,
		"?text=replica-3": 2, "?under=nothing": 0,
	} {
		if got := treeAt(t, handler, query).Known; got != want {
			t.Errorf("%s: %d resources, want %d", query, got, want)
		}
	}
}

// TestTreeOfThousandsIsPaged follows the links of a large tree. Each free name must be on exactly
// one page, and no page may be large.
func TestTreeOfThousandsIsPaged(t *testing.T) {
	t.Parallel()
	tables := soak.Pick(2_000, 10_000)
	held := (tables + 32) / 33
	handler := newServer(t, manyLocks(tables)).Handler()
	for start, want := range map[string]int{
		"/locks": tables - held + 60, "/locks?state=held": held,
		"/locks?under=tenant_007": tables / 200,
	} {
		seen, pages := map[string]bool{}, 0
		for path := start; path != ""; pages++ {
			body := get(t, handler, path).Body.String()
			if len(body) > 400_000 {
				t.Errorf("%s has %d bytes", path, len(body))
			}
			for _, name := range regexp.MustCompile(`href="/locks/timeline\?resource=([^"]*)"`).
				FindAllStringSubmatch(body, -1) {
				seen[name[1]] = true
			}
			path = ""
			if next := regexp.MustCompile(`href="([^"]*)" rel="next"`).
				FindStringSubmatch(body); next != nil {
				path = html.UnescapeString(next[1])
			}
		}
		if len(seen) != want || pages > 21 {
			t.Errorf("%s: %d names on %d pages, want %d", start, len(seen), pages, want)
		}
	}
}

// TestViewersSeeNoRelease checks that the locks page offers viewers no release.
func TestViewersSeeNoRelease(t *testing.T) {
	handler := newServer(t, guardedOptions(t)).Handler()
	for user, want := range map[string]bool{"vera": false, "anna": true} {
		password := map[string]string{"vera": "staple", "anna": "correct horse"}[user]
		reply := accesstest.Ask(handler, http.MethodGet, "/locks",
			accesstest.WithCookie(accesstest.CookieOf(t, handler, user, password)))
		if got := strings.Contains(reply.Body.String(),
			"/locks/release?holder=1810&amp;resource=public%2Forders"); got != want {
			t.Errorf("%s sees the link to release: %t (%d)", user, got, reply.Code)
		}
	}
}

// TestWrongParametersOfTheTree checks that the page and its JSON twin refuse the same parameters.
func TestWrongParametersOfTheTree(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	for query, want := range map[string]string{
		"?state=locked":          `state is "locked", expected one of held, waiting, free`,
		"?state=held&state=free": "state is given 2 times, expected once",
		"?under=a%2F%2Fb":        `under is "a//b", expected a table such as public/orders`,
		"?after=orders":          `after is "orders", expected a value from a link to another page`,
		"?text=%00":              "text has a control character",
		"?job=a":                 `parameter "job" is unknown, expected some of text, state, under, after`,
	} {
		for _, path := range []string{"/locks", "/api/v1/locks/tree"} {
			reply := get(t, handler, path+query)
			body := html.UnescapeString(reply.Body.String())
			if reply.Code != http.StatusBadRequest ||
				!strings.Contains(strings.ReplaceAll(body, `\"`, `"`), want) {
				t.Errorf("%s%s: %d, want 400 and %q in\n%s", path, query, reply.Code, want,
					body)
			}
		}
	}
	for _, query := range []string{"?text=&state=&under=&after=", "?after=table:a"} {
		if reply := get(t, handler, "/locks"+query); reply.Code != http.StatusOK {
			t.Errorf("%s: got %d, want 200", query, reply.Code)
		}
	}
}

// TestLocksSayForWhomRunsWait checks the tree of waiting runs of a table, and that a lock held for
// much longer than usual says so, here and on the overview.
func TestLocksSayForWhomRunsWait(t *testing.T) {
	handler := newServer(t, shop()).Handler()
	body := flat(get(t, handler, "/locks").Body.String())
	for _, want := range []string{"1 h 7 min</time></strong>, usually 9 min, by",
		"renewed every few seconds", "for 1 h 7 min, usually 9 min."} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the locks lacks %q", want)
		}
	}
	if n := strings.Count(body, ", usually"); n != 3 { // both of its tables, and the summary
		t.Errorf("%d durations are said to be unusual, want 3", n)
	}
	text := regexp.MustCompile(`<ul class="chain wide-chain".*?</section>`).FindString(body)
	text = regexp.MustCompile(`<(a|/a|bdi|/bdi|span|/span|time|/time|svg|line|rect|/svg)\b[^>]*>`).
		ReplaceAllString(text, "")
	order := regexp.MustCompile(`archive-orders\s*holds public/orders.*held 1 h 7 min.*` +
		`usually 9 min.*Release lock.*<ul data-slots=""><li [^>]*>.*prune-orders\s*wants public/orders.*` +
		`waits\s*12 min 15 s.*gives up about 05:00:00.*Cancel run.*` +
		`<ul data-slots=""><li [^>]*>.*export-orders\s*wants public/orders.*waits\s*7 min 15 s.*` +
		`until its next firing, 2026-03-15 03:05:00.*`)
	if !order.MatchString(text) {
		t.Errorf("the wait chain is %s", text)
	}
	if body := flat(get(t, handler, "/").Body.String()); !strings.Contains(body,
		`<span class="below">usually 9 min</span>`) {
		t.Error("the overview does not say how long archive-orders usually takes")
	}
}

// TestMoreResourcesAreLinked checks that the page of locks links all resources that are held or
// waited for, if it lists only some of them.
func TestMoreResourcesAreLinked(t *testing.T) {
	h := &history{now: noon}
	blocker := running(1, "load", "replica-1", time.Minute)
	h.runs = []storage.Record{blocker}
	for i := range 300 { // none is held any more
		name := fmt.Sprintf("table_%03d", i)
		h.jobs = append(h.jobs, job(fmt.Sprintf("job-%03d", i), "@daily", name))
		h.runs = append(h.runs, waiting(1000+i, fmt.Sprintf("job-%03d", i), time.Second,
			table(name).Key(), blocker))
	}
	handler := newServer(t, options(h)).Handler()
	body := flat(get(t, handler, "/locks").Body.String())
	more := regexp.MustCompile(`\d+ more resources <a href="([^"]*)">held</a> or ` +
		`<a href="([^"]*)">waited for</a>`).FindStringSubmatch(body)
	if more == nil {
		t.Fatalf("the page does not link more resources: %s", body)
	}
	filtered := get(t, handler, "/locks?text=table_").Body.String()
	for _, want := range []string{"/locks?state=held&amp;text=table_",
		"/locks?state=waiting&amp;text=table_"} {
		if !strings.Contains(filtered, `<a href="`+want+`">`) {
			t.Errorf("the page of resources with a text does not link %s", want)
		}
	}
	for place, want := range []bool{false, true} { // held, waited for
		linked := get(t, handler, more[1+place]).Body.String()
		if got := strings.Contains(linked, "table_299") || strings.Contains(linked,
			"on the next pages"); got != want {
			t.Errorf("%s has the resources: %v, want %v", more[1+place], got, want)
		}
	}
}
