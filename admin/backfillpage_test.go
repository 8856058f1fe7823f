package admin

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfillLinks returns the links to pages of backfills in a page, in their order.
func backfillLinks(body string) (ids []string) {
	link := regexp.MustCompile(`<a href="/backfills/([0-9a-f-]{36})"`)
	for _, found := range link.FindAllStringSubmatch(body, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// TestBackfillsAreListedActiveFirst checks the order of the list, and its pages in both directions.
func TestBackfillsAreListedActiveFirst(t *testing.T) {
	o := manyBackfills()
	var active, ended []string
	for _, b := range o.Store.(*history).backfill {
		if b.State == storage.BackfillActive {
			active = append(active, b.ID.String())
		} else {
			ended = append(ended, b.ID.String())
		}
	}
	handler := newServer(t, o).Handler()
	page := func(address string) string {
		t.Helper()
		reply := get(t, handler, strings.ReplaceAll(address, "&amp;", "&"))
		if reply.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", address, reply.Code, reply.Body)
		}
		return reply.Body.String()
	}
	link := func(body, rel string) string {
		t.Helper()
		found := regexp.MustCompile(`href="([^"]*)" rel="` + rel + `"`).FindStringSubmatch(body)
		if found == nil {
			t.Fatalf("no link to the %s page", rel)
		}
		return found[1]
	}
	lists := func(what, body string, want ...string) {
		t.Helper()
		if got := backfillLinks(body); !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", what, got, want)
		}
	}
	first := page("/backfills")
	lists("the first page", first, slices.Concat(active[:pageBackfills], ended[:pageBackfills])...)
	second := page(link(first, "next"))
	lists("the second page", second, ended[pageBackfills:]...)
	lists("the page before", page(link(second, "prev")), ended[:pageBackfills]...)
	all := page("/backfills?state=active")
	lists("the active ones", all, active[:pageBackfills]...)
	lists("their second page", page(link(all, "next")), active[pageBackfills:]...)
	lists("those of a job", page("/backfills?job=load-03"), ended[1])
}

// TestBackfillsJSONIsPaged follows the Link headers of the API.
func TestBackfillsJSONIsPaged(t *testing.T) {
	o := manyBackfills()
	handler, address, found := newServer(t, o).Handler(), "/api/v1/backfills?limit=60", 0
	for address != "" {
		reply := get(t, handler, address)
		if reply.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", address, reply.Code, reply.Body)
		}
		found += strings.Count(reply.Body.String(), `"created_by"`)
		next := regexp.MustCompile(`<([^>]*)>; rel="next"`).FindStringSubmatch(
			reply.Header().Get("Link"))
		if address = ""; next != nil {
			address = next[1]
		}
	}
	if want := len(o.Store.(*history).backfill); found != want {
		t.Errorf("the pages have %d backfills, want %d", found, want)
	}
}

// TestRunsOfABackfill checks the filter of the list of runs, and of its links.
func TestRunsOfABackfill(t *testing.T) {
	handler := newServer(t, backfilled()).Handler()
	for path, want := range map[string]int{
		param.RunsOfBackfillPath(id(activeBackfill)):                       4,
		param.RunsOfBackfillPath(id(activeBackfill), "failed"):             1,
		"/api/v1" + param.RunsOfBackfillPath(id(activeBackfill)):           4,
		param.RunsOfBackfillPath(id(endedBackfill)):                        0,
		backfillAddress(activeBackfill):                                    4,
		"/api/v1" + param.RunsOfBackfillPath(id(activeBackfill), "failed"): 1,
	} {
		reply := get(t, handler, path)
		runs := len(regexp.MustCompile(`<th role="rowheader"|"scheduled_at"`).FindAllString(
			reply.Body.String(), -1))
		if reply.Code != http.StatusOK || runs != want {
			t.Errorf("%s: %d with %d runs, want %d", path, reply.Code, runs, want)
		}
	}
	body := get(t, handler, param.RunsOfBackfillPath(id(activeBackfill))).Body.String()
	for _, want := range []string{`name="backfill" value="` + id(activeBackfill).String(),
		"/runs?backfill=" + id(activeBackfill).String() + "&amp;state=running"} {
		if !strings.Contains(body, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for _, wrong := range []string{"seven", "00000000-0000-0000-0000-000000000000"} {
		for _, path := range []string{"/runs", "/api/v1/runs"} {
			if reply := get(t, handler, path+"?backfill="+wrong); reply.Code !=
				http.StatusBadRequest || !strings.Contains(reply.Body.String(), "a backfill") {
				t.Errorf("%s of %s: %d %s", path, wrong, reply.Code, reply.Body)
			}
		}
	}
}

// TestCancelBackfillPage sends the form of the page.
func TestCancelBackfillPage(t *testing.T) {
	o, c := withControl(backfilled())
	handler := newServer(t, o).Handler()
	page := backfillAddress(activeBackfill)
	reply := post(handler, page+"/cancel", sent().Encode())
	if reply.Code != http.StatusSeeOther || reply.Header().Get("Location") != page {
		t.Fatalf("%d to %q: %s", reply.Code, reply.Header().Get("Location"), reply.Body)
	}
	if last := c.audit[len(c.audit)-1]; last.Action != "cancel_backfill" ||
		last.Reason != sent().Get("reason") {
		t.Errorf("audited %+v", last)
	}
}
