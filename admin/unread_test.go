package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// stalling is a store whose clock or whose locks a request waits for until its context ends.
type stalling struct {
	*history
	clock, locks atomic.Bool
	asked        chan struct{} // gets a value when a request begins to wait; nil: none
}

func (s *stalling) Now(ctx context.Context) (time.Time, error) {
	if s.clock.Load() {
		return time.Time{}, s.wait(ctx)
	}
	return s.history.Now(ctx)
}

func (s *stalling) Locks(ctx context.Context) ([]storage.LockView, error) {
	if s.locks.Load() {
		return nil, s.wait(ctx)
	}
	return s.history.Locks(ctx)
}

func (s *stalling) wait(ctx context.Context) error {
	if s.asked != nil {
		s.asked <- struct{}{}
	}
	<-ctx.Done()
	return ctx.Err()
}

// newStalling returns a healthy server whose requests wait for the store as long as they do in
// production.
func newStalling(t *testing.T) (*stalling, http.Handler) {
	o := calm()
	store := &stalling{history: o.Store.(*history)}
	o.Store = store
	server := newServer(t, o)
	server.site.Queries = pages.NewQueries()
	return store, server.Handler()
}

// checkHealthy checks that the status that other viewers get has no problems.
func checkHealthy(t *testing.T, handler http.Handler) {
	t.Helper()
	reply := get(t, handler, "/api/v1/status")
	if !strings.Contains(reply.Body.String(), `"headline": "Healthy"`) {
		t.Errorf("got %d %s, want a healthy cluster", reply.Code, reply.Body)
	}
}

// TestStatusAfterAClientThatLeft checks that a client that disconnects during a query does not look
// like a store that does not answer.
func TestStatusAfterAClientThatLeft(t *testing.T) {
	for _, path := range []string{"/", "/api/v1/status", "/api/v1/overview"} {
		store, handler := newStalling(t)
		store.asked = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		request.Host = "127.0.0.1:8080"
		store.clock.Store(true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			handler.ServeHTTP(httptest.NewRecorder(), request)
		}()
		<-store.asked
		leave()
		<-ended
		store.clock.Store(false)
		checkHealthy(t, handler)
	}
}

// TestStatusWhileRequestsWait lets requests wait for their turn in vain. Their answers must say
// that the server is busy, with the status of before.
func TestStatusWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, handler := newStalling(t)
		checkHealthy(t, handler)
		store.locks.Store(true)
		for range 4 {
			go get(t, handler, "/api/v1/locks")
		}
		synctest.Wait()
		const busy = "Too many requests query the database at the same time."
		for _, path := range []string{"/", "/runs", "/jobs", "/api/v1/runs"} {
			go func() {
				reply := get(t, handler, path)
				if body := reply.Body.String(); reply.Code != http.StatusServiceUnavailable ||
					!strings.Contains(body, busy) || strings.Contains(body, "No run starts") ||
					strings.Contains(body, "does not answer.</strong>") {
					t.Errorf("%s: got %d %.500s, want 503 and that too many ask", path, reply.Code,
						reply.Body)
				}
			}()
		}
		reply := get(t, handler, "/api/v1/status")
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.Contains(reply.Body.String(), `"headline": "Healthy"`) {
			t.Errorf("got %d %s, want 503 and the last status", reply.Code, reply.Body)
		}
		time.Sleep(time.Minute) // the other requests end, and the last status is old
		for range 4 {
			go get(t, handler, "/api/v1/locks")
		}
		synctest.Wait()
		reply = get(t, handler, "/api/v1/status")
		if !strings.Contains(reply.Body.String(), "The state of the cluster is unknown") {
			t.Errorf("a minute later, got %s, want an unknown status", reply.Body)
		}
		store.locks.Store(false)
		time.Sleep(time.Minute)
		checkHealthy(t, handler)
	})
}

// TestStatusOfASlowPage checks that the status is that of the state that was read, although the
// queries of the page took too long.
func TestStatusOfASlowPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, handler := newStalling(t)
		store.locks.Store(true)
		reply := get(t, handler, "/locks")
		body := reply.Body.String()
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.Contains(body, "no answer within 3s") ||
			strings.Contains(body, "No run starts") ||
			strings.Contains(body, "does not answer.</strong>") {
			t.Errorf("got %d %s, want 503 and that the page took too long", reply.Code, body)
		}
		checkHealthy(t, handler)
	})
}

// TestStatusBehindSlowRequests lets a page wait for a connection that slow pages or requests of the
// API have. It must say that the server is busy, with the status of before. A later page that gets
// no answer although no other request has a connection must say that the store does not answer.
func TestStatusBehindSlowRequests(t *testing.T) {
	for _, slow := range []string{"/locks", "/api/v1/locks/tree"} {
		synctest.Test(t, func(t *testing.T) {
			store, handler := newStalling(t)
			store.locks.Store(true)
			for range 2 {
				go get(t, handler, slow)
			}
			synctest.Wait()
			time.Sleep(time.Millisecond) // the slow requests began earlier
			store.clock.Store(true)
			reply := get(t, handler, "/runs")
			if body := reply.Body.String(); reply.Code != http.StatusServiceUnavailable ||
				!strings.Contains(body, "Too many requests query the database at the same time.") ||
				strings.Contains(body, "does not answer.</strong>") {
				t.Errorf("%s: got %d %s, want 503 and that too many ask", slow, reply.Code, body)
			}
			store.clock.Store(false)
			checkHealthy(t, handler)
			time.Sleep(time.Millisecond)
			store.clock.Store(true)
			reply = get(t, handler, "/runs")
			if body := reply.Body.String(); !strings.Contains(body, "does not answer.</strong>") {
				t.Errorf("%s: got %s, want that the store does not answer", slow, body)
			}
		})
	}
}

// TestStatusBesideAMonitor polls the API while the state of the cluster cannot be read. Its answers
// must not hide that from the pages.
func TestStatusBesideAMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, handler := newStalling(t)
		checkHealthy(t, handler)
		time.Sleep(time.Millisecond)
		store.clock.Store(true)
		shown := make(chan string, 1)
		go func() { shown <- get(t, handler, "/runs").Body.String() }()
		for range 4 {
			time.Sleep(time.Second)
			if reply := get(t, handler, "/api/v1/locks"); reply.Code != http.StatusOK {
				t.Errorf("got %d %s for the monitor, want 200", reply.Code, reply.Body)
			}
		}
		if body := <-shown; !strings.Contains(body, "does not answer.</strong>") {
			t.Errorf("got %s, want that the store does not answer", body)
		}
	})
}

// TestRefreshWhileRequestsWait lets a refresh wait for its turn in vain. It must leave the page of
// the browser as it is for 10 s. After that, and in a browser that opens the page, the page says
// that the server is busy.
func TestRefreshWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, handler := newStalling(t)
		refresh := func() *httptest.ResponseRecorder {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs", nil)
			request.Host = "127.0.0.1:8080"
			request.Header.Set("HX-Request", "true")
			reply := httptest.NewRecorder()
			handler.ServeHTTP(reply, request)
			return reply
		}
		if reply := refresh(); reply.Code != http.StatusOK {
			t.Fatalf("got %d %s, want 200", reply.Code, reply.Body)
		}
		for _, c := range []struct {
			after  time.Duration
			status int
		}{{0, http.StatusNoContent}, {10 * time.Second, http.StatusServiceUnavailable}} {
			time.Sleep(c.after)
			store.locks.Store(true)
			for range 4 {
				go get(t, handler, "/api/v1/locks")
			}
			synctest.Wait()
			opened := make(chan int, 1)
			go func() { opened <- get(t, handler, "/runs").Code }()
			if reply := refresh(); reply.Code != c.status ||
				(reply.Body.Len() == 0) != (c.status == http.StatusNoContent) {
				t.Errorf("after %s: got %d with %d bytes, want %d", c.after, reply.Code,
					reply.Body.Len(), c.status)
			}
			if code := <-opened; code != http.StatusServiceUnavailable {
				t.Errorf("after %s: got %d for a page that is opened, want 503", c.after, code)
			}
		}
		time.Sleep(time.Minute) // the other requests end
	})
}

// TestClockOfACachedPage checks that a cached page has the time of its content, although the state
// of the cluster was read later.
func TestClockOfACachedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, handler := newStalling(t)
		clock := func() string {
			_, shown, _ := strings.Cut(get(t, handler, "/locks").Body.String(), `class="fresh"`)
			_, shown, _ = strings.Cut(shown, `datetime="`)
			shown, _, _ = strings.Cut(shown, `"`)
			return shown
		}
		before := clock()
		store.now = store.now.Add(time.Hour)
		store.locks.Store(true)
		if got := clock(); got != before || got == "" {
			t.Errorf("got a page of %q, want one of %q", got, before)
		}
	})
}

// TestStreamOfABusyReplica checks that a page that got no turn for its queries names its stream,
// from the last known position.
func TestStreamOfABusyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		store := &stalling{history: o.Store.(*history)}
		o.Store = store
		server := newServer(t, o)
		server.site.Queries = pages.NewQueries()
		handler := server.Handler()
		get(t, handler, "/locks")
		want := "data-events=\"/api/v1/events?since=" + positionOf(c.marks).String() + "&amp;"
		store.locks.Store(true)
		for range 4 {
			go get(t, handler, "/api/v1/locks")
		}
		synctest.Wait()
		reply := get(t, handler, "/runs")
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.Contains(reply.Body.String(), want) {
			t.Errorf("got %d %s, want 503 and %s", reply.Code, reply.Body, want)
		}
		time.Sleep(time.Minute) // the other requests end
	})
}

// frozen are changes of a store that does not answer.
type frozen struct{ *changes }

func (f frozen) Marks(ctx context.Context) (storage.Marks, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestQueriesOfALivePageAreBounded checks that a page with events takes no longer than another one
// if the store does not answer.
func TestQueriesOfALivePageAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		store := &stalling{history: o.Store.(*history)}
		store.clock.Store(true)
		o.Store, o.Changes = store, frozen{c}
		server := newServer(t, o)
		server.site.Queries = pages.NewQueries()
		for range 2 {
			start := time.Now()
			reply := get(t, server.Handler(), "/runs")
			if took := time.Since(start); took != 3*time.Second ||
				reply.Code != http.StatusServiceUnavailable {
				t.Errorf("got %d after %s, want 503 after 3s", reply.Code, took)
			}
		}
	})
}
