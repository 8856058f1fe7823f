package remote

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestListsEnd has servers whose links lead on for ever.
func TestListsEnd(t *testing.T) {
	full := "[{}" + strings.Repeat(",{}", storage.MaxBatch-1) + "]"
	for want, page := range map[string]func(asked int) (link, body string){
		"a page links to an earlier one": func(asked int) (string, string) {
			return "/?before=" + strings.Repeat("x", asked%2), full
		},
		"an empty page links to another one": func(asked int) (string, string) {
			return "/?before=" + strings.Repeat("x", asked), "[]"
		},
	} {
		asked := 0
		ctx, stop := context.WithCancel(t.Context())
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 9 {
				stop() // this client would never end
			}
			link, body := page(asked)
			w.Header().Set("Link", "<"+link+`>; rel="next"`)
			answer(w, http.StatusOK, body)
		})
		if _, err := c.Jobs(ctx); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("jobs: got %v, want %q", err, want)
		}
		asked = 0
		if err := c.ExportAudit(ctx, storage.AuditFilter{Limit: 2},
			func([]storage.Audited) error { return nil }); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("audit: got %v, want %q", err, want)
		}
		stop()
	}
}

// TestListsKeepTheirLimit has a server that sends more entries than were asked for.
func TestListsKeepTheirLimit(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := 0
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 9 {
			stop() // this client would never end
		}
		w.Header().Set("Link", `</>; rel="next"`)
		answer(w, http.StatusOK, "[{},{},{}]")
	})
	got, err := c.Runs(ctx, storage.RunFilter{Limit: 2})
	if err != nil || len(got) != 2 || asked != 1 {
		t.Errorf("got %d runs (%v) after %d requests, want 2 after one", len(got), err, asked)
	}
}
