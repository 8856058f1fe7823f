package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// waitsIn calls found for each waiting run in a JSON value.
func waitsIn(value any, found func(run map[string]any)) {
	switch v := value.(type) {
	case []any:
		for _, part := range v {
			waitsIn(part, found)
		}
	case map[string]any:
		if v["state"] == "waiting" && v["scheduled_at"] != nil {
			found(v)
		}
		for _, part := range v {
			waitsIn(part, found)
		}
	}
}

// TestAPIHasTheEndsOfWaits checks that each answer with waiting runs says until when they wait, and
// that the page of such a run says it in words.
func TestAPIHasTheEndsOfWaits(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	prune := ""
	for _, path := range []string{"/api/v1/runs", "/api/v1/runs?state=waiting",
		"/api/v1/overview", "/api/v1/locks/tree", "/api/v1/jobs/prune-orders",
		"/api/v1/runs/"} {
		if path == "/api/v1/runs/" {
			path += prune
		}
		reply := get(t, handler, path)
		var answer any
		if err := json.Unmarshal(reply.Body.Bytes(), &answer); err != nil ||
			reply.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, reply.Code, err)
		}
		seen := 0
		waitsIn(answer, func(run map[string]any) {
			end, _ := run["wait_end"].(map[string]any)
			switch {
			case run["blocked_by"] == nil:
				return
			case end == nil:
				t.Errorf("%s: the run of %s has no wait_end", path, run["job"])
			case run["job"] == "prune-orders":
				seen++
				prune = run["id"].(string)
				if end["at"] != "2026-03-14T04:02:15Z" || end["estimated"] != true ||
					end["next_firing"] != false {
					t.Errorf("%s: the wait ends %v", path, end)
				}
			case run["job"] == "rollup-sales" && end["at"] != nil:
				t.Errorf("%s: the wait ends %v, want no limit", path, end)
			}
		})
		if seen == 0 {
			t.Errorf("%s has no waiting run of prune-orders", path)
		}
	}
	body := flat(get(t, handler, "/runs/"+prune).Body.String())
	if !strings.Contains(body, ", gives up about <time") {
		t.Errorf("the page of the run does not say when it gives up: %s", body)
	}
}
