package admin

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// replicaSite serves one replica after another at one address, as a load balancer does. Pages poll
// only once an hour, so earlier updates come from events.
type replicaSite struct {
	URL     string
	t       *testing.T
	options Options
	changes *changes
	history *history
	serving atomic.Pointer[Server]
	mu      sync.RWMutex // guards history
	pages   atomic.Int64 // number of requested pages
	streams atomic.Int64 // number of open event streams
}

func newReplicaSite(t *testing.T, window context.Context) *replicaSite {
	o, c := live(t)
	o.Refresh = time.Hour
	s := &replicaSite{t: t, options: o, changes: c, history: o.Store.(*history)}
	s.serving.Store(newServer(t, o))
	s.URL = siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("HX-Request") != "" {
			s.pages.Add(1)
		}
		if r.URL.Path == "/api/v1/events" {
			s.streams.Add(1)
			defer s.streams.Add(-1)
		} else {
			s.mu.RLock()
			defer s.mu.RUnlock()
		}
		s.serving.Load().Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.serving.Load().hub.stop() })
	return s
}

// addReplica adds a live replica.
func (s *replicaSite) addReplica(name string) {
	s.mu.Lock()
	s.history.replicas = append(s.history.replicas[:2:2], liveReplica(9, name, time.Second, 0))
	s.mu.Unlock()
	s.changes.move(storage.TopicReplicas)
}

// TestPageShowsEvents checks in a browser that a page shows changes that the hub finds by polling,
// changes that an action notifies, and changes that happen while another replica takes over the
// stream.
func TestPageShowsEvents(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	browsertest.Visit(t, window, site.URL+"/replicas")
	site.addReplica("replica-of-the-look")
	until(t, window, `document.body.textContent.includes("replica-of-the-look")`)
	site.addReplica("replica-of-the-act")
	site.changes.action()
	until(t, window, `document.body.textContent.includes("replica-of-the-act")`)
	before := site.serving.Swap(newServer(t, site.options))
	site.addReplica("replica-missed")
	before.hub.stop()
	until(t, window, `document.body.textContent.includes("replica-missed")`)
}

// TestPageReloadsAtMostOnceASecond checks that frequent events cause at most one reload per second.
func TestPageReloadsAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	browsertest.Visit(t, window, site.URL+"/replicas")
	site.addReplica("replica-first")
	until(t, window, `document.body.textContent.includes("replica-first")`)
	asked, start := site.pages.Load(), time.Now()
	for site.pages.Load() < asked+4 {
		site.changes.action()
		time.Sleep(20 * time.Millisecond) // faster than the page may reload
		if time.Since(start) > time.Minute {
			t.Fatalf("got %d reloads in a minute of actions", site.pages.Load()-asked)
		}
	}
	if took := time.Since(start); took < 2800*time.Millisecond {
		t.Errorf("got 4 reloads within %s, want at most one a second", took)
	}
}

// TestPageIsNotReplacedDuringInputInABrowser checks that an update keeps what a user has typed.
func TestPageIsNotReplacedDuringInputInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	browsertest.Visit(t, window, site.URL+"/runs")
	site.changes.move(storage.TopicRuns)
	site.changes.action()
	until(t, window,
		`performance.getEntriesByType("resource").some((r) => r.initiatorType == "xmlhttprequest")`)
	asked := site.pages.Load()
	evaluate[bool](t, window,
		`window.refused = 0, document.addEventListener("htmx:beforeRequest", (e) => window.refused += e.defaultPrevented), true`)
	if err := chromedp.Do(window, chromedp.SendKeys(`#q`, "rollup")); err != nil {
		t.Fatal(err)
	}
	site.changes.action()
	until(t, window, `window.refused > 0`)
	if got := evaluate[string](t, window,
		`document.getElementById("q").value`); got != "rollup" || site.pages.Load() != asked {
		t.Errorf("got %q in the field after %d reloads", got, site.pages.Load()-asked)
	}
}
