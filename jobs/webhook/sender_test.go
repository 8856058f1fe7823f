package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

var key = []byte("hunter2 hunter2 hunter2 hunter2")

// post is a request that a receiver got.
type post struct {
	id, timestamp, signature, auth string
	body                           []byte
}

// receiver is an HTTP server that passes its requests to the test and replies as the test sets it.
type receiver struct {
	*httptest.Server
	posts chan post
}

func newReceiver(t *testing.T,
	answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{posts: make(chan post, 100)}
	var mu sync.Mutex
	n := 0
	r.Server = httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return
			}
			h := request.Header
			r.posts <- post{h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"),
				h.Get("Webhook-Signature"), h.Get("Authorization"), body}
			mu.Lock()
			n++
			turn := n
			mu.Unlock()
			answer(turn, w, request)
		}))
	t.Cleanup(r.Close)
	return r
}

// any waits for a request.
func (r *receiver) any(t *testing.T) post {
	t.Helper()
	select {
	case p := <-r.posts:
		return p
	case <-time.After(30 * time.Second):
		t.Fatal("requests: got none, want one")
		return post{}
	}
}

// next waits for a request and checks what all requests have in common.
func (r *receiver) next(t *testing.T) (post, Event) {
	t.Helper()
	p := r.any(t)
	if want := Sign(key, p.id, p.timestamp, p.body); !hmac.Equal([]byte(p.signature),
		[]byte(want)) {
		t.Errorf("signature %s, want %s", p.signature, want)
	}
	seconds, err := strconv.ParseInt(p.timestamp, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age < -time.Second ||
		age > time.Minute {
		t.Errorf("timestamp %s", p.timestamp)
	}
	var e Event
	decoder := json.NewDecoder(bytes.NewReader(p.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil || e.ID.String() != p.id {
		t.Errorf("body %s (%v), want the id %s", p.body, err, p.id)
	}
	return p, e
}

// fixture is a store with a job whose failures and skips a webhook delivers.
type fixture struct {
	*testing.T
	store   *sqlite.Store
	session uuid.UUID
	n       int
}

// migrated is the file of a new store. A copy is faster than a migration.
var migrated = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "webhook-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "holdfast.db")
	store, err := sqlite.Open(context.Background(), path,
		sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	store.Close()
	return os.ReadFile(path)
})

func newFixture(t *testing.T) *fixture {
	t.Helper()
	file, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), path,
		sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	s := &fixture{T: t, store: store, session: uuid.New()}
	if err := store.Open(t.Context(),
		storage.Session{ID: s.session, Replica: "a", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	d := storage.Definition{Name: "job", Hash: "h",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Failed}}}
	if _, err := store.Register(t.Context(), s.session, []storage.Definition{d}); err != nil {
		t.Fatal(err)
	}
	return s
}

// fail makes a run of the job fail.
func (s *fixture) fail() uuid.UUID {
	s.Helper()
	s.n++
	r := storage.StartRequest{Run: uuid.New(),
		Firing: storage.Firing{Job: "job", ScheduledAt: time.Unix(int64(s.n), 0)}, Attempt: 1,
		WaitSince: time.Now()}
	started, err := s.store.Start(s.Context(), s.session, []storage.StartRequest{r})
	if err != nil {
		s.Fatal(err)
	}
	end := storage.FinishRequest{Run: r.Run, Token: started[0].Token, State: jobs.Failed,
		Error: "no luck", Output: "much", Result: json.RawMessage(`{"status":418}`)}
	if _, err := s.store.Finish(s.Context(), []storage.FinishRequest{end}); err != nil {
		s.Fatal(err)
	}
	return r.Run
}

// send starts a sender. The returned function stops it and waits for its end.
func (s *fixture) send(outbox storage.Outbox, url string, log io.Writer,
	change func(*Sender)) (stop func()) {
	s.Helper()
	h := Hook{
		Name: "w", URL: url + "/in?token=hunter2", Keys: [][]byte{key},
		Header:  http.Header{"Authorization": {"Bearer hunter2"}},
		Timeout: 30 * time.Second, Retry: retry.Policy{Attempts: 6, Delay: 10 * time.Millisecond},
	}
	sender := New(Options{Outbox: outbox, Hooks: []Hook{h}, Cluster: s.store.ClusterID(),
		Log: zerolog.New(log)})
	sender.poll = 10 * time.Millisecond
	if change != nil {
		change(sender)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sender.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				s.Error(err)
			}
		})
	}
	s.Cleanup(stop)
	return stop
}

// undelivered waits until the failed deliveries are those that the test expects.
func (s *fixture) undelivered(what string,
	until func([]storage.Undelivered) bool) []storage.Undelivered {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		found, err := s.store.UndeliveredHooks(s.Context(), storage.UndeliveredFilter{})
		if err != nil {
			s.Fatal(err)
		}
		if until(found) {
			return found
		}
		if time.Now().After(deadline) {
			s.Fatalf("undelivered %+v, want %s", found, what)
		}
	}
}

func none(found []storage.Undelivered) bool { return len(found) == 0 }

// After every kind of failure the sender repeats the same event, until the receiver accepts it.
func TestFailuresThenSuccess(t *testing.T) {
	s := newFixture(t)
	elsewhere := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	var log safeBuffer
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "Bearer hunter2")
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		case 3:
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 4:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, strings.Repeat("x", 10*maxResponse))
		}
	})
	run := s.fail()
	s.send(&talkative{s.store}, r.URL, &log, nil)
	var first post
	for n := range 5 {
		p, e := r.next(t)
		if n == 0 {
			first = p
		}
		if p.id != first.id || !bytes.Equal(p.body, first.body) || p.auth != "Bearer hunter2" {
			t.Errorf("try %d: id %s, body %s, want those of the first, %s and %s", n+1, p.id,
				p.body, first.id, first.body)
		}
		d := e.Data
		if e.Type != "run.failed" || e.Cluster != s.store.ClusterID() || d.ID != run ||
			d.Job != "job" || d.State != jobs.Failed || d.Error != "no luck" ||
			string(d.Result) != `{"status":418}` || d.Output != "" || d.Params != nil ||
			e.Timestamp.IsZero() || d.Replica != "a" || d.Token == 0 {
			t.Errorf("event %+v", e)
		}
	}
	s.undelivered("none", none)
	s.fail()
	if p, _ := r.next(t); p.id == first.id {
		t.Error("event ids of two runs: got equal ones, want different ones")
	}
	s.undelivered("none", none)
	if len(r.posts) > 0 || len(elsewhere.posts) > 0 {
		t.Errorf("%d requests too many, %d to where it was redirected", len(r.posts),
			len(elsewhere.posts))
	}
	for _, want := range []string{"status 503", `"tries":1`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log shows a secret: %s", log.String())
	}
}

func TestTargetsOfWebhooks(t *testing.T) {
	s := newFixture(t)
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	rules, err := egress.NewRules(nil, []string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s.fail()
	s.send(s.store, r.URL, io.Discard, func(s *Sender) {
		*s = *New(Options{Outbox: s.options.Outbox, Hooks: s.options.Hooks, Targets: rules,
			Cluster: s.options.Cluster, Log: s.options.Log})
		s.options.Hooks[0].Retry.Attempts = 1
	})
	found := s.undelivered("one that was refused", func(found []storage.Undelivered) bool {
		return len(found) == 1 && found[0].Error != ""
	})
	if !strings.Contains(found[0].Error, "refused: it is in handlers.http.deny") ||
		len(r.posts) > 0 {
		t.Errorf("found %+v and %d requests", found[0], len(r.posts))
	}
}

func TestGivesUpAndLogs(t *testing.T) {
	s := newFixture(t)
	var log safeBuffer
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})
	run := s.fail()
	s.send(s.store, r.URL, &log, func(s *Sender) { s.options.Hooks[0].Retry.Attempts = 3 })
	found := s.undelivered("one that was given up", func(found []storage.Undelivered) bool {
		return len(found) == 1 && found[0].GaveUpAt != nil
	})
	if u := found[0]; u.Run != run || u.Tries != 3 || u.Error != "status 410" || u.NextAt != nil {
		t.Errorf("given up: %+v", u)
	}
	for range 3 {
		r.next(t)
	}
	if !strings.Contains(log.String(), "webhook delivery failed, given up") {
		t.Errorf("got log %s", log.String())
	}
}

// Receivers with the new secret accept the requests, and so do receivers with the old one.
func TestReplacedSecrets(t *testing.T) {
	s := newFixture(t)
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	old := []byte("hunter1 hunter1 hunter1 hunter1")
	s.fail()
	s.send(s.store, r.URL, io.Discard, func(s *Sender) {
		s.options.Hooks[0].Keys = append(s.options.Hooks[0].Keys, old)
	})
	p := r.any(t)
	if want := Sign(key, p.id, p.timestamp, p.body) + " " +
		Sign(old, p.id, p.timestamp, p.body); p.signature != want {
		t.Errorf("signatures %s, want %s", p.signature, want)
	}
	s.undelivered("none", none)
}

// The header may have seconds or a date. The delay has an upper bound.
func TestRetryAfter(t *testing.T) {
	inTenMinutes := time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
	for _, test := range []struct {
		name, header string
		status       int
		elapsed      time.Duration
		least, most  time.Duration // from the failure to the next try
	}{
		{"none", "", 429, 0, 0, 10 * time.Second},
		{"seconds", "120", 429, 0, 110 * time.Second, 120 * time.Second},
		{"fewer seconds than the policy waits", "0", 503, 0, 0, 10 * time.Second},
		{"a date", inTenMinutes, 503, 0, 9 * time.Minute, 10 * time.Minute},
		{"a date that is past", "Thu, 01 Jan 1970 00:00:00 GMT", 503, 0, 0, 10 * time.Second},
		{"a redirect", "120", 302, 0, 110 * time.Second, 120 * time.Second},
		{"for ever", "999999999", 503, 0, 59 * time.Minute, time.Hour},
		{"a number that is none", "99999999999999999999", 503, 0, 0, 10 * time.Second},
		{"a negative number", "-5", 503, 0, 0, 10 * time.Second},
		{"beyond the policy's end", "3000", 503, 20 * time.Minute, 19 * time.Minute, 20 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFixture(t)
			r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(test.status)
			})
			s.fail()
			before := time.Now()
			s.send(s.store, r.URL, io.Discard, func(s *Sender) {
				s.options.Hooks[0].Retry = retry.Policy{Attempts: 5, Delay: 10 * time.Second,
					Elapsed: test.elapsed}
			})
			found := s.undelivered("one that failed", func(found []storage.Undelivered) bool {
				return len(found) == 1
			})
			if wait := found[0].NextAt.Sub(before); wait < test.least ||
				wait > test.most+time.Since(before) {
				t.Errorf("the next try is after %s, want %s to %s", wait, test.least, test.most)
			}
		})
	}
}

// A delivery that was given up and is delivered again gets the same number of tries.
func TestDeliveredAgain(t *testing.T) {
	s := newFixture(t)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})
	s.fail()
	s.send(s.store, r.URL, io.Discard, func(s *Sender) { s.options.Hooks[0].Retry.Attempts = 2 })
	givenUp := func(tries int) func([]storage.Undelivered) bool {
		return func(found []storage.Undelivered) bool {
			return len(found) == 1 && found[0].GaveUpAt != nil && found[0].Tries == tries
		}
	}
	found := s.undelivered("one that was given up", givenUp(2))
	if _, err := s.store.DeliverAgain(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		found[0].ID); err != nil {
		t.Fatal(err)
	}
	s.undelivered("one that was given up again, after two tries more", givenUp(4))
	for range 4 {
		r.next(t)
	}
}

func TestUnreachableAndSlow(t *testing.T) {
	s := newFixture(t)
	var log safeBuffer
	release := make(chan struct{})
	r := newReceiver(t, func(_ int, _ http.ResponseWriter, request *http.Request) {
		select {
		case <-release:
		case <-request.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	s.fail()
	stop := s.send(s.store, r.URL, &log, func(s *Sender) {
		s.options.Hooks[0].Timeout, s.options.Hooks[0].Retry.Delay = 50*time.Millisecond, time.Hour
	})
	s.undelivered("one that took too long", func(found []storage.Undelivered) bool {
		return len(found) == 1 && found[0].Error == "no response within 50ms"
	})
	stop()
	s.fail()
	s.send(s.store, "http://127.0.0.1:1", &log, func(s *Sender) {
		s.options.Hooks[0].Retry.Delay = time.Hour
	})
	found := s.undelivered("two", func(found []storage.Undelivered) bool { return len(found) == 2 })
	for _, u := range found {
		if strings.Contains(u.Error, "hunter2") || u.Error == "" {
			t.Errorf("error %q", u.Error)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log shows a secret: %s", log.String())
	}
}

// talkative is an outbox whose runs contain data that no event may contain.
type talkative struct{ storage.Outbox }

func (o *talkative) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration,
	limit int) ([]storage.Delivery, error) {
	taken, err := o.Outbox.TakeDeliveries(ctx, webhook, lease, limit)
	for i := range taken {
		taken[i].Run.Output, taken[i].Run.Params = "much", json.RawMessage(`{"password":"hunter2"}`)
	}
	return taken, err
}

// deadOutbox is the outbox of a replica that is killed during a delivery: it takes deliveries and
// settles none.
type deadOutbox struct {
	storage.Outbox
	mu    sync.Mutex
	dead  bool
	until time.Time // the lease of the last deliveries ends then, or later
}

func (o *deadOutbox) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
}

func (o *deadOutbox) TakeDeliveries(ctx context.Context, webhook string, lease time.Duration,
	limit int) ([]storage.Delivery, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return nil, errors.New("killed")
	}
	until := time.Now().Add(lease)
	taken, err := o.Outbox.TakeDeliveries(ctx, webhook, lease, limit)
	if len(taken) > 0 {
		o.until = until
	}
	return taken, err
}

// leased returns until when the last deliveries are leased at least.
func (o *deadOutbox) leased() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.until
}

func (o *deadOutbox) SettleDelivery(context.Context, storage.Settlement) (bool, error) {
	return false, errors.New("killed")
}

func TestOthersDeliverForAKilledReplica(t *testing.T) {
	s := newFixture(t)
	dead := &deadOutbox{Outbox: s.store}
	r := newReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			dead.kill()
		}
	})
	s.fail()
	short := func(s *Sender) { s.margin, s.options.Hooks[0].Timeout = 2*time.Second, time.Second }
	s.send(dead, r.URL, io.Discard, short)
	first, _ := r.next(t)
	s.send(s.store, r.URL, io.Discard, short)
	again, _ := r.next(t)
	early := time.Until(dead.leased())
	if again.id != first.id || early > time.Millisecond { // the store rounds times
		t.Errorf("delivered again %s before the end of the lease, with the id %s, want %s after it",
			early, again.id, first.id)
	}
	s.undelivered("none", none)
	if left, err := s.store.TakeDeliveries(t.Context(), "w", 0, 10); err != nil || len(left) != 0 {
		t.Errorf("left over: %+v, %v", left, err)
	}
}

// Other replicas need not wait for the lease of a stopped replica.
func TestStoppedReplicaLeavesDeliveriesToOthers(t *testing.T) {
	s := newFixture(t)
	release := make(chan struct{})
	r := newReceiver(t, func(n int, _ http.ResponseWriter, request *http.Request) {
		if n == 1 {
			select {
			case <-release:
			case <-request.Context().Done():
			}
		}
	})
	t.Cleanup(func() { close(release) })
	s.fail()
	stop := s.send(s.store, r.URL, io.Discard, func(s *Sender) {
		s.margin, s.options.Hooks[0].Retry.Delay = time.Hour, time.Hour
	})
	first, _ := r.next(t)
	stop()
	s.send(s.store, r.URL, io.Discard, nil)
	if again, _ := r.next(t); again.id != first.id {
		t.Errorf("got %s, want %s", again.id, first.id)
	}
	s.undelivered("none", none)
}

// Several senders share the deliveries. Without failures each delivery is sent once.
func TestSendersShare(t *testing.T) {
	s := newFixture(t)
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
	const runs = 40
	for range runs {
		s.fail()
	}
	for range 3 {
		s.send(s.store, r.URL, io.Discard, nil)
	}
	seen := map[string]bool{}
	for range runs {
		p, _ := r.next(t)
		seen[p.id] = true
	}
	if len(seen) != runs || len(r.posts) != 0 {
		t.Errorf("%d different events in %d requests", len(seen), runs+len(r.posts))
	}
}

// The expected signature is the example of Standard Webhooks.
func TestSignature(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

// safeBuffer may be written and read concurrently.
type safeBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
