package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
)

// overviewOf returns the overview from the API.
func overviewOf(t *testing.T, handler http.Handler) (o Overview) {
	t.Helper()
	reply := get(t, handler, "/api/v1/overview")
	if err := json.Unmarshal(reply.Body.Bytes(), &o); err != nil || reply.Code != http.StatusOK {
		t.Fatalf("got %d %v, want 200", reply.Code, err)
	}
	return o
}

// TestOverviewCountsExpectedConflicts checks the tile and the marks of the next firings against the
// agenda of the same jobs.
func TestOverviewCountsExpectedConflicts(t *testing.T) {
	for word, o := range map[string]Options{"wait": hourly(), "skip": impatient()} {
		handler := newServer(t, o).Handler()
		agenda, view := readAgenda(t, o, ""), overviewOf(t, handler)
		next := time.Date(2026, 3, 14, 4, 5, 0, 0, time.UTC)
		if e := view.Conflicts; e == nil || e.Waits != 24 || e.Waits != agenda.Waits ||
			e.Skips != agenda.Skips || !e.Next.Equal(next) || !e.Until.Equal(agenda.Until) {
			t.Errorf("expected conflicts are %+v, want those of the agenda and the next at %s", e,
				next)
		}
		for _, f := range view.Next {
			want := ""
			if f.Job == "report" {
				want = word
			}
			if f.Expected != want {
				t.Errorf("expected of %s is %q, want %q", f.Job, f.Expected, want)
			}
		}
		body := flat(get(t, handler, "/").Body.String())
		for _, part := range []string{`<span class="value">24</span>`,
			`<span class="sub warn">` + word + ` expected</span>`, `>04:05:00</time>`} {
			if !strings.Contains(body, part) {
				t.Errorf("the overview lacks %q", part)
			}
		}
	}
	view := overviewOf(t, newServer(t, withUpcoming(calm())).Handler())
	if view.Conflicts == nil || view.Conflicts.Waits != 0 || !view.Conflicts.Next.IsZero() {
		t.Errorf("without conflicts: %+v", view.Conflicts)
	}
}

// TestOverviewDoesNotComputeTheAgenda checks that requests of the overview use one result for a
// minute. If the computation takes longer than a request may, the first request has no result.
func TestOverviewDoesNotComputeTheAgenda(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		waits bool // for the first result
	}{"quick": {0, true}, "slow": {4 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			var computed atomic.Int64
			o := hourly()
			upcoming := o.Upcoming
			// the first firings of all jobs are computed for an agenda only
			o.Upcoming = func(from time.Time, n int) []ScheduledFiring {
				if n > 10_000 {
					computed.Add(1)
					time.Sleep(test.takes) // by the clock of synctest
				}
				return upcoming(from, n)
			}
			now := noon
			reader := newReader(o).lock
			for i, step := range []struct {
				after    time.Duration // since the last request
				known    bool
				computed int64 // after the request and what it began
			}{
				{0, test.waits, 1}, {time.Second, true, 1}, {30 * time.Second, true, 1},
				{30 * time.Second, true, 2}, {5 * time.Minute, true, 3},
				{11 * time.Minute, test.waits, 4},
			} {
				now = now.Add(step.after)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				e, err := locks.FindExpectedConflicts(ctx, reader, now)
				cancel()
				if err != nil || (e != nil) != step.known {
					t.Errorf("%s, request %d: %+v (%v), want a result: %t", name, i, e, err,
						step.known)
				}
				time.Sleep(test.takes)
				synctest.Wait()
				if got := computed.Load(); got != step.computed {
					t.Errorf("%s, request %d: computed %d times, want %d", name, i, got,
						step.computed)
				}
			}
		})
	}
}
