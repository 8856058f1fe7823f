package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// changes are the marks of a store. A test changes them with move.
type changes struct {
	mu    sync.Mutex
	marks storage.Marks
	asked int
	heard map[*func()]bool
	err   error
	begin chan struct{} // if set, Listen starts when it is closed
}

func newChanges() *changes {
	c := &changes{marks: make(storage.Marks), heard: make(map[*func()]bool)}
	for _, topic := range storage.Topics() {
		c.marks[topic] = "0"
	}
	return c
}

func (c *changes) Marks(context.Context) (storage.Marks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return maps.Clone(c.marks), c.err
}

func (c *changes) Listen(ctx context.Context, heard func()) error {
	if c.begin != nil {
		select {
		case <-c.begin:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	c.heard[&heard] = true
	c.mu.Unlock()
	heard()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.heard, &heard)
	return ctx.Err()
}

// move changes the marks of topics.
func (c *changes) move(topics ...storage.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, topic := range topics {
		c.marks[topic] += "+"
	}
}

// fail lets Marks return the error; nil: none.
func (c *changes) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// action notifies all listeners.
func (c *changes) action() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for heard := range c.heard {
		(*heard)()
	}
}

func (c *changes) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *changes) listeners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heard)
}

// piped runs a server on pipes in a bubble. The returned function stops it and fails the test
// unless it stops at once.
func piped(t *testing.T, o Options) (*Server, *pipes, func()) {
	t.Helper()
	server, listener := newServer(t, o), newPipes()
	server.listener = listener
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	return server, listener, func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// watching is a client that reads an event stream.
type watching struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

// watch opens an event stream and fails the test if the server refuses it.
func watch(t *testing.T, listener *pipes, query string, header ...string) *watching {
	t.Helper()
	return watchOn(t, listener.dial(), query, header...)
}

func watchOn(t *testing.T, c net.Conn, query string, header ...string) *watching {
	t.Helper()
	w := &watching{Conn: c, t: t}
	if _, err := io.WriteString(w.Conn,
		"GET /api/v1/events"+query+" HTTP/1.1\r\nHost: localhost\r\n"+strings.Join(header,
			"")+"\r\n"); err != nil {
		t.Fatal(err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(w.Conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusOK ||
		reply.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %s with headers %v, want 200 and text/event-stream", reply.Status,
			reply.Header)
	}
	w.Reader = bufio.NewReader(reply.Body)
	if first := w.block(); first != "retry: 2000" {
		t.Fatalf("the stream begins with %q", first)
	}
	return w
}

// block reads the stream up to the next empty line.
func (w *watching) block() string {
	w.t.Helper()
	text, err := w.next()
	if err != nil {
		w.t.Fatalf("after %q: %v", text, err)
	}
	return text
}

func (w *watching) next() (string, error) {
	var lines []string
	for {
		line, err := w.ReadString('\n')
		if err != nil || line == "\n" {
			return strings.Join(lines, "\n"), err
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

// nextEvents reads events up to the one with an id. It returns that id and the topics of the
// events.
func (w *watching) nextEvents() (topics []string, id string) {
	w.t.Helper()
	for id == "" {
		for _, line := range strings.Split(w.block(), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				id = value
			case "event":
				topics = append(topics, value)
			}
		}
	}
	return topics, id
}

func (w *watching) wants(what string, topics ...storage.Topic) (id string) {
	w.t.Helper()
	got, id := w.nextEvents()
	if strings.Join(got, ", ") != words.List(topics) {
		w.t.Errorf("%s: events of %v, want %v", what, got, topics)
	}
	return id
}

func live(t *testing.T) (Options, *changes) {
	t.Helper()
	o, c := calm(), newChanges()
	o.Changes = c
	return o, c
}

func TestEventsNameChangedTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		_, listener, end := piped(t, o)
		all := watch(t, listener, "")
		first := all.wants("who has seen nothing", storage.Topics()...)
		c.move(storage.TopicLocks, storage.TopicRuns)
		start := time.Now()
		second := all.wants("two changes", storage.TopicRuns, storage.TopicLocks)
		if took := time.Since(start); took > pollInterval {
			t.Errorf("got the event of a change after %s", took)
		}
		if first == second {
			t.Error("both have the id " + first)
		}
		one := watch(t, listener, "?topics=audit,replicas&since="+second)
		c.move(storage.TopicRuns)
		all.wants("a third change", storage.TopicRuns)
		c.move(storage.TopicAudit)
		one.wants("the first change of its topics", storage.TopicAudit)
		all.Close()
		one.Close()
		end()
	})
}

// TestStreamContinuesOnAnotherReplica checks that a client gets the events that it missed when it
// reconnects to another replica.
func TestStreamContinuesOnAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		_, first, end := piped(t, o)
		reader := watch(t, first, "")
		id := reader.wants("the beginning", storage.Topics()...)
		reader.Close()
		end()
		c.move(storage.TopicJobs)
		_, second, end := piped(t, o)
		reader = watch(t, second, "?since=1-stale", "Last-Event-ID: "+id+"\r\n")
		reader.wants("what was missed", storage.TopicJobs)
		for _, unknown := range []string{"x", "2" + id[1:], id + "-00",
			strings.Replace(id, "-", "-z", 1)} {
			again := watch(t, second, "", "Last-Event-ID: "+unknown+"\r\n")
			again.wants("after the id "+unknown, storage.Topics()...)
			again.Close()
		}
		reader.Close()
		end()
	})
}

func TestActionsAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		_, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		reader.wants("the beginning", storage.Topics()...)
		synctest.Wait() // until the hub listens
		asked := c.questions()
		start := time.Now()
		c.action()
		reader.wants("an action", storage.Topics()...)
		if took := time.Since(start); took > 0 || c.questions() > asked {
			t.Errorf("got the event after %s and %d queries", took, c.questions()-asked)
		}
		reader.Close()
		end()
	})
}

// TestActionsBeforeListeningAreSentLater performs an action between the hub's first poll and its
// start to listen. A stream must get the event as soon as the hub listens, and not only at the next
// poll.
func TestActionsBeforeListeningAreSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		c.begin = make(chan struct{})
		_, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		reader.wants("the beginning", storage.Topics()...)
		synctest.Wait()
		c.move(storage.TopicJobs, storage.TopicAudit)
		c.action()
		start := time.Now()
		close(c.begin)
		reader.wants("an action that nobody heard", storage.TopicJobs, storage.TopicAudit)
		if took := time.Since(start); took > 0 {
			t.Errorf("got the event %s after Listen, want it at once", took)
		}
		reader.Close()
		end()
	})
}

// TestFailedPollsAreLoggedOnce lets polls fail twice, each time for a minute.
func TestFailedPollsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		var logged bytes.Buffer
		o.Log = zerolog.New(&logged).Level(zerolog.WarnLevel)
		_, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		go func() { _, _ = io.Copy(io.Discard, reader.Reader) }()
		for outage := 1; outage <= 2; outage++ {
			c.fail(errors.New("permission denied"))
			time.Sleep(time.Minute)
			c.fail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := strings.Count(logged.String(), "permission denied"); n != outage {
				t.Errorf("%d lines after %d outages: %s", n, outage, &logged)
			}
		}
		reader.Close()
		end()
		if n := strings.Count(logged.String(), "\n"); n != 2 {
			t.Errorf("%d lines at the end: %s", n, &logged)
		}
	})
}

// TestStoreIsQueriedOnlyForOpenStreams counts the queries for marks with and without open streams.
func TestStoreIsQueriedOnlyForOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		_, listener, end := piped(t, o)
		time.Sleep(time.Minute)
		if c.questions() != 0 || c.listeners() != 0 {
			t.Errorf("got %d queries and %d listeners without streams, want none", c.questions(),
				c.listeners())
		}
		var readers []*watching
		for range 10 {
			readers = append(readers, watch(t, listener, ""))
		}
		for _, reader := range readers {
			go func() { _, _ = io.Copy(io.Discard, reader.Reader) }()
		}
		time.Sleep(time.Minute)
		if n := c.questions(); n < 59 || n > 62 || c.listeners() != 1 {
			t.Errorf("%d questions in a minute of ten readers, by %d listeners", n, c.listeners())
		}
		for _, reader := range readers {
			reader.Close()
		}
		time.Sleep(2 * pollInterval)
		asked := c.questions()
		time.Sleep(time.Minute)
		if c.questions() > asked || c.listeners() != 0 {
			t.Errorf("%d questions and %d listeners after all have gone", c.questions()-asked,
				c.listeners())
		}
		again := watch(t, listener, "")
		again.wants("who comes later", storage.Topics()...)
		again.Close()
		end()
	})
}

// TestStreamsOutlastTheServersTimeouts checks that streams send keepalives and end after
// maxStreamTime.
func TestStreamsOutlastTheServersTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		c.err = errors.New("the store is down") // so that there are no events
		_, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		start := time.Now()
		keepalives := 0
		for {
			text, err := reader.next()
			if err != nil {
				break
			}
			if keepalives++; text != ": still here" ||
				time.Since(start) != time.Duration(keepalives)*keepaliveInterval {
				t.Fatalf("%q after %s", text, time.Since(start))
			}
		}
		if took := time.Since(start); took != maxStreamTime || keepalives < 100 {
			t.Errorf("it ended after %s and %d keepalives", took, keepalives)
		}
		end()
	})
}

func TestSlowReadersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		server, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		for range 100 { // a pipe has no buffer, so writes to it block
			c.move(storage.TopicRuns)
			time.Sleep(pollInterval)
		}
		server.hub.mu.Lock()
		if n := len(server.hub.streams); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		server.hub.mu.Unlock()
		reader.Close()
		end()
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := live(t)
		server, listener, end := piped(t, o)
		var readers []*watching
		for i := range maxStreams {
			readers = append(readers, watchOn(t,
				listener.dialFrom(fmt.Sprintf("198.51.100.%d", i%4)), ""))
		}
		refused := get(t, server.Handler(), "/api/v1/events")
		if refused.Code != http.StatusServiceUnavailable ||
			refused.Header().Get("Retry-After") == "" ||
			!strings.Contains(refused.Body.String(), "too many streams") {
			t.Errorf("one more: %d %s", refused.Code, refused.Body)
		}
		readers[0].Close()
		synctest.Wait()
		watch(t, listener, "").Close()
		for _, reader := range readers {
			reader.Close()
		}
		end()
	})
}

// TestStreamsOfOneReaderAreBounded opens streams of one identity from many addresses, and of many
// identities from one address.
func TestStreamsOfOneReaderAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := live(t)
		var proofs []string
		for i := range 5 {
			token := fmt.Sprintf("token-%d", i)
			o.Tokens = append(o.Tokens, Token{Name: token, Role: Viewer,
				Hash: accesstest.Sum(token)})
			proofs = append(proofs, "Authorization: Bearer "+token+"\r\n")
		}
		server, listener, end := piped(t, o)
		var readers []*watching
		open := func(address, proof string) {
			readers = append(readers, watchOn(t, listener.dialFrom(address), "", proof))
		}
		refused := func(what, address, token string) {
			t.Helper()
			reply := accesstest.Ask(server.Handler(), http.MethodGet, "/api/v1/events",
				accesstest.From(address+":1"), func(r *http.Request) { r.Host = "localhost" },
				accesstest.WithHeader("Authorization", "Bearer "+token))
			if reply.Code != http.StatusTooManyRequests || reply.Header().Get("Retry-After") == "" {
				t.Errorf("%s: got %d %s, want 429 with Retry-After", what, reply.Code, reply.Body)
			}
		}
		for i := range maxIdentityStreams {
			open(fmt.Sprintf("198.51.100.%d", i), proofs[0])
		}
		refused("one more of an identity", "198.51.100.99", "token-0")
		for i := range maxAddressStreams {
			open("203.0.113.1", proofs[1+i%3])
		}
		refused("one more from an address", "203.0.113.1", "token-4")
		open("203.0.113.2", proofs[4])
		for _, reader := range readers {
			reader.Close()
		}
		end()
	})
}

// TestShutdownDoesNotWaitForStreams checks that a shutdown ends streams at once and that no new
// ones start.
func TestShutdownDoesNotWaitForStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := live(t)
		server, listener, end := piped(t, o)
		reader := watch(t, listener, "")
		reader.wants("the beginning", storage.Topics()...)
		start := time.Now()
		go func() { _, _ = io.Copy(io.Discard, reader.Reader) }()
		end()
		if took := time.Since(start); took >= shutdownTimeout {
			t.Errorf("it took %s", took)
		}
		if reply := get(t, server.Handler(),
			"/api/v1/events"); reply.Code != http.StatusServiceUnavailable {
			t.Errorf("stream after the shutdown: got %d", reply.Code)
		}
	})
}

// TestStreamEndsWithTheSession checks that a stream ends when its user's sign-in becomes invalid.
func TestStreamEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		o.Users = []User{user(t, "anna", "correct horse", Viewer)}
		signedIn := accesstest.SignIn(newServer(t, o).Handler(), "anna", "correct horse",
			func(r *http.Request) { r.Host = "localhost" })
		time.Sleep(12*time.Hour - time.Minute)
		_, listener, end := piped(t, o)
		reader := watch(t, listener, "",
			"Cookie: "+strings.Split(signedIn.Header().Get("Set-Cookie"), ";")[0]+"\r\n")
		id := reader.wants("the beginning", storage.Topics()...)
		for range 3 {
			if text := reader.block(); text != ": still here" {
				t.Errorf("got %q", text)
			}
		}
		c.move(storage.TopicRuns)
		if now := reader.wants("within the sign-in", storage.TopicRuns); now == id {
			t.Error("the id is still " + id)
		}
		time.Sleep(keepaliveInterval)
		c.move(storage.TopicRuns)
		if text, err := reader.next(); err == nil {
			t.Errorf("after the sign-in has ended: %q", text)
		}
		end()
	})
}

// TestStreamEndsWithThePermission checks that a client gets no more events after it loses the
// permission to view.
func TestStreamEndsWithThePermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		o.Roles = []permission.Role{{Name: "watcher", Grant: permission.Grant{
			Permissions: []permission.Permission{permission.View}}}}
		o.Tokens = []Token{{Name: "screen", Role: "watcher", Hash: accesstest.Sum("screen-token")}}
		server, listener, end := piped(t, o)
		reader := watch(t, listener, "", "Authorization: Bearer screen-token\r\n")
		reader.wants("the beginning", storage.Topics()...)
		o.Roles[0].Permissions = []permission.Permission{permission.ViewMetrics}
		if err := server.SetAccess(Access{Hosts: o.Hosts, Tokens: o.Tokens,
			Roles: o.Roles}); err != nil {
			t.Fatal(err)
		}
		c.move(storage.TopicRuns)
		if text, err := reader.next(); err == nil {
			t.Errorf("without the permission: %q", text)
		}
		end()
	})
}

func TestEventsRefuseUnknownTopics(t *testing.T) {
	o, _ := live(t)
	handler := newServer(t, o).Handler()
	for query, want := range map[string]string{
		"?topics=runs,nothing": `topics has \"nothing\", expected some of runs, locks, jobs`,
		"?topics=,":            `topics has \"\"`,
		"?topic=runs":          `parameter \"topic\" is unknown`,
		"?since=a%00b":         "since has a control character",
		"?since=a&since=b":     "since is given 2 times",
	} {
		if reply := get(t, handler, "/api/v1/events"+query); reply.Code != http.StatusBadRequest ||
			!strings.Contains(reply.Body.String(), want) {
			t.Errorf("%s: got %d %s, want 400 and %q", query, reply.Code, reply.Body, want)
		}
	}
	if reply := send(handler, http.MethodHead, "/api/v1/events", nil); reply.Code != http.StatusOK {
		t.Errorf("HEAD: %d", reply.Code)
	}
	if reply := get(t, newServer(t, calm()).Handler(),
		"/api/v1/events"); reply.Code != http.StatusNotImplemented {
		t.Errorf("without changes: %d", reply.Code)
	}
}

// TestPagesNameTheirStream checks that a page names a stream that starts at the state that the page
// shows.
func TestPagesNameTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := live(t)
		server, listener, end := piped(t, o)
		page := func(path string) string { return get(t, server.Handler(), path).Body.String() }
		now := positionOf(c.marks).String()
		if got := page("/locks"); !strings.Contains(got, `hx-trigger="every 5s, changes"`) ||
			!strings.Contains(got,
				`data-events="/api/v1/events?since=`+now+`&amp;topics=locks%2Cruns%2Cjobs"`) {
			t.Error("address of the event stream: got none on the page, want one")
		}
		page("/")
		page("/jobs")
		if n := c.questions(); n != 1 {
			t.Errorf("got %d queries for three pages at the same time", n)
		}
		last := id(2).String() // the run has ended
		reader := watch(t, listener, "")
		since := reader.wants("the beginning", storage.Topics()...)
		if got := page("/audit"); !strings.Contains(got,
			"data-events=\"/api/v1/events?since="+since+"&amp;topics=audit\"") {
			t.Error("position of the event stream: got none on the page, want one")
		}
		for _, still := range []string{"/?refresh=off", "/runs/" + last} {
			if strings.Contains(page(still), "data-events") {
				t.Errorf("%s stands still, and hears all the same", still)
			}
		}
		reader.Close()
		end()
	})
}

func TestPositionRoundTrip(t *testing.T) {
	p := positionOf(newChanges().marks)
	if got := parsePosition(p.String()); !maps.Equal(got, p) || len(got) != len(storage.Topics()) {
		t.Errorf("%v is read as %v", p, got)
	}
	if got := position(nil).String(); got != "" {
		t.Errorf("no position is %q", got)
	}
}

// TestOnlyTheLastEventHasTheID checks that of several events sent together only the last has an id.
// A client that got only some of them then gets all of them again.
func TestOnlyTheLastEventHasTheID(t *testing.T) {
	at := positionOf(newChanges().marks)
	want := "event: runs\ndata: {\"topic\": \"runs\"}\n\nid: " + at.String() +
		"\nevent: jobs\ndata: {\"topic\": \"jobs\"}\n\n"
	if got := eventText([]storage.Topic{storage.TopicRuns, storage.TopicJobs}, at); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := eventText([]storage.Topic{storage.TopicRuns}, nil); strings.Contains(got, "id:") {
		t.Errorf("without a position: %q", got)
	}
}
