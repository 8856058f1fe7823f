package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestGroupsOfAFilterAreThoseOfTheViewer checks that a viewer who may see the jobs of one group is
// not told the names and sizes of the others, although all viewers share the cached page.
func TestGroupsOfAFilterAreThoseOfTheViewer(t *testing.T) {
	o, _ := limitedOptions(t)
	h := o.Store.(*history)
	for i := range h.jobs {
		if h.jobs[i].Name == "prune-orders" {
			h.jobs[i].Group = "payroll"
		}
	}
	handler := newServer(t, o).Handler()
	for _, path := range []string{"/jobs?group=sales", "/grid?group=sales"} {
		for _, view := range []struct {
			role string
			all  bool
		}{{"viewer", true}, {"sales", false}, {"viewer", true}} {
			reply := accesstest.Ask(handler, http.MethodGet, path, roleToken(view.role))
			body := flat(reply.Body.String())
			if reply.Code != http.StatusOK || !strings.Contains(body, `value="sales">sales (`) {
				t.Errorf("%s, %s: got %d, want 200 and the group of the filter", path, view.role,
					reply.Code)
			}
			if strings.Contains(body, "payroll") != view.all {
				t.Errorf("%s, %s: the page has the group payroll: %t, want %t", path, view.role,
					!view.all, view.all)
			}
		}
	}
}
