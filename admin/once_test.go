package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestEachActionRunsOnce clicks each button twice at the same time, through two replicas. The audit
// log must get one entry for each target, and both clicks must lead to the same page with the same
// notice.
func TestEachActionRunsOnce(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"),
			sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		clickTwice(t, store, store)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		if testing.Short() {
			t.Skip("needs PostgreSQL")
		}
		url := database.Database(t)
		open := func(migrate bool) storage.Store {
			store, err := postgres.Open(t.Context(),
				postgres.Options{URL: url, Migrate: migrate, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			return store
		}
		clickTwice(t, open(true), open(false))
	})
}

func clickTwice(t *testing.T, first, second storage.Store) {
	session, running, waiting := addRuns(t, first)
	handlers := []http.Handler{realServer(t, first, "replica-1"),
		realServer(t, second, "replica-2")}
	token := tokenOf(t, first, running)
	job := func(rows int) string {
		encoded, err := json.Marshal(map[string]any{"name": "added", "handler": "work",
			"params": map[string]int{"rows": rows}})
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	}
	drain, lost := "/replicas/"+session.String(), "/replicas/"+lostReplica(t, first).String()
	for _, click := range []struct {
		path, action string
		form         url.Values
	}{
		{"/jobs/rollup-sales/trigger", "trigger", sent("params", `{"rows": 3}`)},
		{param.RunPath(running) + "/cancel", "cancel", sent()},
		{param.RunPath(waiting) + "/cancel", "cancel", sent()},
		{param.RunPath(waiting) + "/again", "trigger", sent()},
		{locks.ReleasePath("public/orders", token), "release", sent("token", fmt.Sprint(token))},
		{bulk("again", "run", running.String(), waiting.String()), "trigger", sent()},
		{bulk("trigger", "job", "rollup-sales", "rollup-stock"), "trigger", sent()},
		{bulk("pause", "job", "rollup-sales", "rollup-stock"), "pause", sent()},
		{bulk("resume", "job", "rollup-sales", "rollup-stock"), "resume", sent()},
		{"/jobs/rollup-sales/pause", "pause", sent()},
		{"/jobs/rollup-sales/resume", "resume", sent()},
		{"/groups/night/pause", "pause", sent()},
		{"/groups/night/resume", "resume", sent()},
		{"/pause", "pause", sent()},
		{"/resume", "resume", sent()},
		{drain + "/drain", "drain", sent()},
		{drain + "/undrain", "undrain", sent()},
		{lost + "/remove", "remove_replica", sent()},
		{"/add", "put_job", sent("job", job(1))},
		{"/jobs/added/change", "put_job", sent("job", job(2), "version", "1")},
		{"/jobs/added/remove", "remove_job", sent("version", "2")},
	} {
		before := linesOf(t, first, click.action)
		replies := make([]*httptest.ResponseRecorder, len(handlers))
		var clicks sync.WaitGroup
		for i, handler := range handlers {
			clicks.Go(func() { replies[i] = post(handler, click.path, click.form.Encode()) })
		}
		clicks.Wait()
		messages := make([]string, len(replies))
		for i, reply := range replies {
			if reply.Code != http.StatusSeeOther {
				t.Errorf("%s, click %d: %d %s", click.path, i+1, reply.Code, reply.Body)
				continue
			}
			messages[i] = noticeOf(t, handlers[1-i], reply)
		}
		if messages[0] != messages[1] || messages[0] == "" {
			t.Errorf("%s: got notice %q of one click and %q of the other, want the same",
				click.path, messages[0], messages[1])
		}
		if lines := linesOf(t, first, click.action) - before; lines != max(1,
			strings.Count(click.path, "job=")+strings.Count(click.path, "run=")) {
			t.Errorf("%s: %d lines in the audit log", click.path, lines)
		}
	}
}

// addRuns adds a session of replica-1 and two jobs. The first has two runs: one holds public/orders
// and one waits for it.
func addRuns(t *testing.T, store storage.Store) (session, running, waiting uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	session = uuid.New()
	if err := store.Open(ctx,
		storage.Session{ID: session, Replica: "replica-1", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	definition := storage.Definition{Name: "rollup-sales", Hash: "1", Zone: "UTC", Handler: "work",
		Resources: exclusive("orders"), Group: "night", Priority: 5, Source: storage.FromConfig}
	other := definition
	other.Name = "rollup-stock"
	if _, err := store.Register(ctx, session,
		[]storage.Definition{definition, other}); err != nil {
		t.Fatal(err)
	}
	start := func(scheduledAt time.Time) uuid.UUID {
		request := storage.StartRequest{Run: uuid.New(),
			Firing: storage.Firing{Job: "rollup-sales", ScheduledAt: scheduledAt}, Attempt: 1,
			Requests: exclusive("orders"), WaitSince: scheduledAt}
		if _, err := store.Start(ctx, session, []storage.StartRequest{request}); err != nil {
			t.Fatal(err)
		}
		return request.Run
	}
	now := time.Now().UTC().Truncate(time.Second)
	return session, start(now.Add(-time.Minute)), start(now)
}

// lostReplica adds a replica whose session expires and is swept, and returns the session.
func lostReplica(t *testing.T, store storage.Store) uuid.UUID {
	t.Helper()
	lost := storage.Session{ID: uuid.New(), Replica: "replica-9", TTL: time.Hour}
	next := storage.Session{ID: uuid.New(), Replica: "replica-9", TTL: time.Hour,
		ReplaceEarlier: true} // which expires the first
	for _, session := range []storage.Session{lost, next} {
		if err := store.Open(t.Context(), session); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lost.ID
}

// realServer serves the pages of one replica with a real store.
func realServer(t *testing.T, store storage.Store, replica string) http.Handler {
	t.Helper()
	options := operationsOptions()
	options.Control, options.Replica = store, replica
	server := newServer(t, Options{
		Listen: "127.0.0.1:0", Store: store, Replica: replica,
		Operations: operations.New(options), Log: zerolog.Nop(),
	})
	return server.Handler()
}

func tokenOf(t *testing.T, store storage.Store, run uuid.UUID) locking.Token {
	t.Helper()
	record, err := store.Run(t.Context(), run)
	if err != nil || record.State != jobs.Running {
		t.Fatalf("got %+v and %v, want a running run", record, err)
	}
	return record.Token
}

func linesOf(t *testing.T, store storage.Store, action string) int {
	t.Helper()
	lines, err := store.Audit(context.WithoutCancel(t.Context()),
		storage.AuditFilter{Action: action})
	if err != nil {
		t.Fatal(err)
	}
	return len(lines)
}

// noticeOf follows an action's redirect through another replica. It returns the page's address and
// the text of the notice.
func noticeOf(t *testing.T, handler http.Handler, reply *httptest.ResponseRecorder) string {
	t.Helper()
	location := reply.Header().Get("Location")
	request := httptest.NewRequest(http.MethodGet, location, nil)
	for _, cookie := range reply.Result().Cookies() {
		request.AddCookie(cookie)
	}
	request.Host = "localhost:8080"
	server := httptest.NewRecorder()
	handler.ServeHTTP(server, request)
	found := regexp.MustCompile(`(?s)class="notice".*?<bdi data-says>(.*?)</bdi>`).
		FindStringSubmatch(server.Body.String())
	if server.Code != http.StatusOK || found == nil {
		t.Errorf("%s: %d, and no notice", location, server.Code)
		return ""
	}
	return location + " " + found[1]
}
