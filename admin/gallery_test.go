package admin

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// galleryState is one state of a page.
type galleryState struct {
	name    string
	options Options
	path    string
	status  int
	before  func(t *testing.T, s *Server)
	has     []string
}

func galleryStates() []galleryState {
	stale := contention()
	return []galleryState{
		{name: "empty", options: empty(), has: []string{
			"No replica is registered. No tables are known. Nothing runs, nothing waits.", "No job has named a table yet.", "No firing is due.",
		}},
		{name: "calm", options: calm(), has: []string{"Two replicas, all beating. 1 of 2 tables held. One run under way, none waiting.", "No run waits."}},
		{name: "contention", options: contention(), has: []string{
			"Three replicas: two beating, one late.", "keeps 3 runs waiting", "42 min", "replica-4 died",
		}},
		{name: "fifty", options: fifty(), has: []string{"25 of 50 tables held", "and 32 younger"}},
		{name: "hostile", options: hostile(), has: []string{"&lt;script&gt;"}},
		{name: "layers", options: layers(), has: []string{"covered by the exclusive lock on", "1 lock beneath it", "run out"}},
		{name: "memcached", options: watched(), has: []string{
			"as replica-1 sees it", "12041 entries, 4 of 128 MB, 131 connections", "evicted 4 entries", "evictions is on", ": start it with -M",
			"idle_timeout is 60", "connect: connection refused", ">unknown<",
		}},
		{name: "drift", options: drifting(), has: []string{
			"two different cron tables", "rollup-sales: replica-1 and replica-4 have an older definition", "replica-4 starts nothing: its clock is 1m1.25s behind",
		}},
		{name: "down", options: down(), status: http.StatusServiceUnavailable, has: []string{
			"The store does not answer", "connection refused", "has not seen any state",
		}},
		{name: "stale", options: stale, status: http.StatusServiceUnavailable, has: []string{
			"The store does not answer", "last state that replica-1 saw", "keeps 3 runs waiting",
		}, before: func(t *testing.T, s *Server) {
			get(t, s.Handler(), "/")
			stale.Store.(*history).err = down().Store.(*history).err
		}},
		{name: "stopped", options: calm(), path: "/?refresh=off", has: []string{`not refreshed <a href="/">every 5 s</a>`}},
		{name: "not-found", options: calm(), path: "/nothing", status: http.StatusNotFound, has: []string{"404 Not Found"}},
	}
}

// TestGallery renders every state of every page. With HOLDFAST_GALLERY set to
// a folder it writes them there, to look at.
func TestGallery(t *testing.T) {
	folder := galleryFolder(t)
	for _, state := range galleryStates() {
		t.Run(state.name, func(t *testing.T) {
			server := newServer(t, state.options)
			if state.before != nil {
				state.before(t, server)
			}
			reply := get(t, server.Handler(), cmp.Or(state.path, "/"))
			if want := cmp.Or(state.status, http.StatusOK); reply.Code != want {
				t.Errorf("status %d, want %d", reply.Code, want)
			}
			body := reply.Body.String()
			for _, want := range state.has {
				if !strings.Contains(body, want) {
					t.Errorf("page lacks %q", want)
				}
			}
			if !strings.HasSuffix(body, "</html>\n") {
				t.Error("page does not end")
			}
			writeGallery(t, folder, state.name, server, body)
		})
	}
}

func galleryFolder(t *testing.T) string {
	t.Helper()
	return cmp.Or(os.Getenv("HOLDFAST_GALLERY"), t.TempDir())
}

// writeGallery writes a page that stands by itself, with its assets beside it.
func writeGallery(t *testing.T, folder, name string, s *Server, body string) {
	t.Helper()
	for plain, file := range s.assets.byName {
		body = strings.ReplaceAll(body, "/static/"+file.hashed, plain)
		if err := os.WriteFile(filepath.Join(folder, plain), file.body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, name+".html"), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// get asks the handler under a loopback name.
func get(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "127.0.0.1:8080"
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}
