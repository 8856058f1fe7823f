package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var server *servertest.Postgres // nil with -short

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(pg *servertest.Postgres) { server = pg }))
}

// tested is a running service with a signed-in client.
type tested struct {
	*service
	address  string
	client   *http.Client
	log      *lockedBuffer
	finished chan jobs.Event
	metrics  *prometheus.Registry
}

// lockedBuffer is a log that goroutines share.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs a service on a pool until the end of the test, when it must stop without an error.
func start(t *testing.T, url string, memcached *servertest.Memcached,
	more ...holdfast.Option) *tested {
	t.Helper()
	s, _ := startStoppable(t, url, memcached, more...)
	return s
}

// startStoppable is start, with a function that stops the service before the end of the test.
func startStoppable(t *testing.T, url string, memcached *servertest.Memcached,
	more ...holdfast.Option) (*tested, func()) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &tested{log: &lockedBuffer{}, finished: make(chan jobs.Event, 1000),
		metrics: prometheus.NewRegistry()}
	listen := holdfast.WithListeners(func(_ context.Context, e jobs.Event) {
		if e.Kind == jobs.EventFinished {
			s.finished <- e
		}
	})
	s.service, err = newService(options{pool: pool, memcached: []string{memcached.Addr()},
		password: "secret", log: slog.New(slog.NewTextHandler(s.log, nil)), registerer: s.metrics,
		more: append(more, listen)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener) }()
	stopOnce := sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("end of the service: %v", err)
		}
		if t.Failed() {
			t.Log(s.log)
		}
	})
	t.Cleanup(stopOnce)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Jar: jar}
	return s, stopOnce
}

// get returns status and body of an answer.
func (s *tested) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return s.ask(t, http.MethodGet, path, nil)
}

func (s *tested) post(t *testing.T, path string, form url.Values) int {
	t.Helper()
	status, _ := s.ask(t, http.MethodPost, path, form)
	return status
}

func (s *tested) ask(t *testing.T, method, path string, form url.Values) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.address+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	reply, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

// signIn signs in, and leads to the admin page.
func (s *tested) signIn(t *testing.T) {
	t.Helper()
	status, page := s.ask(t, http.MethodPost, "/sign-in", url.Values{"user": {"anna"},
		"password": {"secret"}, "next": {"/holdfast/"}})
	if status != http.StatusOK || !strings.Contains(page, "Signed in as <bdi>anna</bdi>") ||
		!strings.Contains(page, `href="/holdfast/jobs"`) {
		t.Fatalf("page after the sign-in: %d\n%s", status, page)
	}
}

// await returns the next finished run of a job.
func (s *tested) await(t *testing.T, job string) jobs.Event {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-s.finished:
			if e.Job == job {
				return e
			}
		case <-limit:
			t.Fatalf("no run of %s has finished", job)
		}
	}
}

// awaitReady waits until the replica has stored its jobs.
func (s *tested) awaitReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		status, body := s.get(t, "/readyz")
		if status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not ready: %s", body)
		}
		time.Sleep(10 * time.Millisecond) // probes are asked regularly
	}
}

func database(t *testing.T) string {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	return server.Database(t)
}

// TestOrdersAreConfirmed takes an order over HTTP. Its run exists because the transaction commits,
// and the refused order has none.
func TestOrdersAreConfirmed(t *testing.T) {
	s := start(t, database(t), servertest.NewMemcached(t))
	s.awaitReady(t)
	if status := s.post(t, "/orders", url.Values{"id": {"o-1"},
		"amount": {"7"}}); status != http.StatusUnauthorized {
		t.Errorf("an order without a sign-in: %d", status)
	}
	if _, body := s.get(t, "/holdfast/jobs"); !strings.Contains(body, "<title>Sign in</title>") {
		t.Errorf("the admin page without a sign-in: %s", body)
	}
	s.signIn(t)
	for amount, want := range map[string]int{"0": http.StatusConflict,
		"7": http.StatusCreated} {
		if status := s.post(t, "/orders", url.Values{"id": {"o-" + amount},
			"amount": {amount}}); status != want {
			t.Errorf("an order of %s: %d, want %d", amount, status, want)
		}
	}
	if run := s.await(t, "confirm-order"); run.State != jobs.Succeeded {
		t.Errorf("run: %+v", run)
	}
	if _, body := s.get(t, "/orders/o-7"); body != "confirmed\n" {
		t.Errorf("the order is %q", body)
	}
	var runs []storage.Record
	_, body := s.get(t, "/holdfast/api/v1/runs?job=confirm-order")
	if err := json.Unmarshal([]byte(body), &runs); err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v in %s", err, body)
	}
	if status := s.post(t, "/holdfast/api/v1/jobs/total-sales/trigger",
		nil); status >= http.StatusBadRequest {
		t.Errorf("trigger by the API: %d", status)
	}
	s.await(t, "total-sales")
	_, audit := s.get(t, "/holdfast/api/v1/audit?actor=anna")
	if strings.Count(audit, `"action": "trigger"`) != 2 ||
		!strings.Contains(audit, `"proof": "program"`) {
		t.Errorf("audit log: %s", audit)
	}
	s.checkObservability(t)
}

// checkObservability checks that the locks are in memcached, and that the log and the metrics are
// those of the service.
func (s *tested) checkObservability(t *testing.T) {
	t.Helper()
	if _, body := s.get(t, "/holdfast/api/v1/memcached"); !strings.Contains(body, `"server"`) ||
		strings.Contains(body, `"unreachable"`) {
		t.Errorf("memcached: %s", body)
	}
	if !strings.Contains(s.log.String(), "job=confirm-order") {
		t.Error("the log of the service lacks the run")
	}
	families, err := s.metrics.Gather()
	if err != nil || len(families) < 20 {
		t.Errorf("metrics of the service: %d families, %v", len(families), err)
	}
}

// TestArchiveMovesOldOrders runs the job that commits in several transactions.
func TestArchiveMovesOldOrders(t *testing.T) {
	s := start(t, database(t), servertest.NewMemcached(t))
	s.awaitReady(t)
	s.signIn(t)
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO orders
		SELECT i::text, i, true FROM generate_series(1, 1250) i`); err != nil {
		t.Fatal(err)
	}
	if status := s.post(t, "/holdfast/api/v1/jobs/archive-orders/trigger",
		nil); status >= http.StatusBadRequest {
		t.Fatalf("trigger: %d", status)
	}
	if run := s.await(t, "archive-orders"); run.State != jobs.Succeeded {
		t.Errorf("run: %+v", run)
	}
	var left, archived int
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM orders),
		(SELECT count(*) FROM old_orders)`).Scan(&left, &archived); err != nil || left != 1000 ||
		archived != 250 {
		t.Errorf("%d orders are left and %d archived, %v", left, archived, err)
	}
}

// TestTwoClustersShareADatabase runs two services with jobs of the same names on one database, one
// memcached server and the same tables, in two schemas. Each confirms its own order, and neither
// sees the other's runs.
func TestTwoClustersShareADatabase(t *testing.T) {
	url, memcached := database(t), servertest.NewMemcached(t)
	services := map[string]*tested{
		"first":  start(t, url, memcached, holdfast.WithSchema("first")),
		"second": start(t, url, memcached, holdfast.WithSchema("second")),
	}
	for order, s := range services {
		s.awaitReady(t)
		s.signIn(t)
		if status := s.post(t, "/orders", orderForm(order)); status != http.StatusCreated {
			t.Fatalf("order %s: %d", order, status)
		}
	}
	for order, s := range services {
		if run := s.await(t, "confirm-order"); run.State != jobs.Succeeded {
			t.Errorf("run of %s: %+v", order, run)
		}
		if _, body := s.get(t, "/orders/"+order); body != "confirmed\n" {
			t.Errorf("order %s is %q", order, body)
		}
		var runs []storage.Record
		_, body := s.get(t, "/holdfast/api/v1/runs?job=confirm-order")
		if err := json.Unmarshal([]byte(body), &runs); err != nil || len(runs) != 1 {
			t.Errorf("runs of %s: %v in %s", order, err, body)
		}
	}
}

// TestServiceFinishesRequestsAfterTheReplica checks what a service can do after Run has returned.
func TestServiceFinishesRequestsAfterTheReplica(t *testing.T) {
	s, stop := startStoppable(t, database(t), servertest.NewMemcached(t))
	s.awaitReady(t)
	stop()
	trigger := holdfast.Trigger[confirmParams]{Job: "confirm-order",
		Params: confirmParams{Order: "o-1"}}
	if _, err := s.replica.Trigger(t.Context(), trigger); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("a trigger: got %v, want ErrStopped", err)
	}
	if err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := s.replica.TriggerTx(t.Context(), tx, trigger)
		return err
	}); err != nil {
		t.Errorf("a trigger in a transaction: got %v, want none", err)
	}
}

func orderForm(id string) url.Values { return url.Values{"id": {id}, "amount": {"7"}} }

func TestLocalPath(t *testing.T) {
	for next, want := range map[string]string{"/holdfast/jobs?a=b": "/holdfast/jobs?a=b",
		"https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", "": "/"} {
		if got := localPath(next); got != want {
			t.Errorf("%q: got %q, want %q", next, got, want)
		}
	}
}
