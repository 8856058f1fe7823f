package memcached_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// recommended are the flags of deploy/memcached.conf without port, user and log, which the server
// of the test sets.
func recommended(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/memcached.conf")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") ||
			slices.Contains([]string{"logfile", "-p", "-u", "-P"}, words[0]) {
			continue
		}
		flags = append(flags, words...)
	}
	return flags
}

func TestRecommendedFlagsAreSafe(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t, recommended(t)...)
	watch := watchOf(t, open(t, memcached.Options{Servers: []string{server.Addr()},
		Timeout: 5 * time.Second}))
	watch.Look(t.Context())
	complaints(t, watch, memcached.Unsafe)
	complaints(t, watch, memcached.Advice)
	if h := watch.Servers()[0]; h.State != memcached.StateSafe || len(h.Events) != 0 ||
		h.Usage.LimitBytes != 128<<20 {
		t.Errorf("got health %+v, want it safe without events", h)
	}
	if err := watch.Check(); err != nil {
		t.Error(err)
	}
}

func TestDefaultFlagsAreUnsafe(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t)
	watch := watchOf(t, connect(t, server.Addr()))
	watch.Look(t.Context())
	complaints(t, watch, memcached.Unsafe, "evictions", "flush_enabled", "slab_reassign")
	complaints(t, watch, memcached.Advice)
	var unsafe *memcached.UnsafeError
	err := watch.Check()
	want := fmt.Sprintf("not safe for locks: memcached %s: evictions is on, expected off: start "+
		"it with -M; "+
		"flush_enabled is yes, expected no: start it with -F; slab_reassign is yes, expected no: "+
		"start it with -o no_slab_reassign", server.Addr())
	if !errors.As(err, &unsafe) || err.Error() != want {
		t.Errorf("check: %v\nwant %s", err, want)
	}
}

// TestFlagsThatMatter starts servers with each flag of a rule, to see the settings that memcached
// reports.
func TestFlagsThatMatter(t *testing.T) {
	skipWithShort(t)
	for name, test := range map[string]struct {
		flags []string
		want  memcached.Setting
	}{
		"-C":                {[]string{"-C"}, memcached.Setting{Name: "cas_enabled", Value: "no", Rating: memcached.Unsafe}},
		"-I":                {[]string{"-I", "4k", "-o", "slab_chunk_max=2"}, memcached.Setting{Name: "item_size_max", Value: "4096", Rating: memcached.Unsafe}},
		"-c":                {[]string{"-c", "60"}, memcached.Setting{Name: "maxconns", Value: "60", Rating: memcached.Unsafe}},
		"temporary_ttl":     {[]string{"-M", "-o", "temporary_ttl=60"}, memcached.Setting{Name: "temp_lru", Value: "yes", Rating: memcached.Advice}},
		"temporary_ttl, no": {[]string{"-o", "temporary_ttl=60"}, memcached.Setting{Name: "temp_lru", Value: "yes", Rating: memcached.Good}},
		"idle_timeout":      {[]string{"-o", "idle_timeout=30"}, memcached.Setting{Name: "idle_timeout", Value: "30", Rating: memcached.Advice}},
	} {
		t.Run(name, func(t *testing.T) {
			server := servertest.NewMemcached(t, append(test.flags, "-t", "1")...)
			watch := watchOf(t, connect(t, server.Addr()))
			watch.Look(t.Context())
			h := watch.Servers()[0]
			at := slices.IndexFunc(h.Settings, func(s memcached.Setting) bool {
				return s.Name == test.want.Name
			})
			if at < 0 || h.Settings[at].Value != test.want.Value ||
				h.Settings[at].Rating != test.want.Rating {
				t.Errorf("%s: %+v, want %+v", h.Error, h.Settings, test.want)
			}
		})
	}
}

// TestServerEvents causes each event at a real server and expects one line in the log.
func TestServerEvents(t *testing.T) {
	skipWithShort(t)
	for name, test := range map[string]struct {
		flags  []string
		befall func(t *testing.T, server *servertest.Memcached)
		want   memcached.EventKind
		seen   func(s memcached.Seen) uint64
	}{
		"restart": {nil, func(t *testing.T, server *servertest.Memcached) {
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, memcached.EventRestarted, func(s memcached.Seen) uint64 { return s.Restarts }},
		"flush": {nil, func(t *testing.T, server *servertest.Memcached) {
			send(t, server, "flush_all\r\n", "OK\r\n")
		}, memcached.EventFlushed, func(s memcached.Seen) uint64 { return s.Flushes }},
		"flush with -F": {[]string{"-F"}, func(t *testing.T, server *servertest.Memcached) {
			send(t, server, "flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n")
		}, memcached.EventFlushRefused, func(s memcached.Seen) uint64 { return s.RefusedFlushes }},
		"eviction": {[]string{"-m", "2"}, func(t *testing.T, server *servertest.Memcached) {
			store(t, server, 10_000)
		}, memcached.EventEvicted, func(s memcached.Seen) uint64 { return s.Evictions }},
		"full": {[]string{"-m", "2", "-M"}, func(t *testing.T, server *servertest.Memcached) {
			store(t, server, 10_000)
		}, memcached.EventFull, func(s memcached.Seen) uint64 { return s.OutOfMemory }},
		"too many connections": {[]string{"-c", "60"}, refuseConnections, memcached.EventConnections, func(s memcached.Seen) uint64 { return s.RefusedConnections }},
	} {
		t.Run(name, func(t *testing.T) {
			server := servertest.NewMemcached(t, append(test.flags, "-t", "1")...)
			var log lines
			watch := connect(t, server.Addr()).Watch(memcached.WatchOptions{Log: zerolog.New(&log)})
			watch.Look(t.Context())
			test.befall(t, server)
			for range 3 {
				watch.Look(t.Context())
			}
			if lines := log.about(string(test.want)); len(lines) != 1 ||
				lines[0]["server"] != server.Addr() {
				t.Errorf("%d lines in the log: %v", len(lines), lines)
			}
			h := watch.Servers()[0]
			// A server that evicts may also refuse an item at the same time.
			reported := slices.ContainsFunc(h.Events, func(e memcached.Event) bool {
				return e.Kind == test.want
			})
			if !reported || test.seen(h.Seen) == 0 {
				t.Errorf("events %+v, seen %+v", h.Events, h.Seen)
			}
			if test.want != memcached.EventRestarted && h.Seen.Restarts != 0 ||
				h.Seen.Outages != 0 {
				t.Errorf("seen too much: %+v", h.Seen)
			}
		})
	}
}

// TestSlabReassignment lets an operator move memory on a full server with -M. The server drops keys
// that `evictions` does not count. With no_slab_reassign the server refuses.
func TestSlabReassignment(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t, "-M", "-m", "4", "-t", "1")
	watch := watchOf(t, connect(t, server.Addr()))
	watch.Look(t.Context())
	store(t, server, 20_000)
	class := slabClass(t, server)
	send(t, server, "slabs reassign "+class+" 20\r\n", "OK\r\n")
	await(t, "eviction by reassignment", func() bool {
		watch.Look(t.Context())
		return watch.Servers()[0].Seen.SlabEvictions > 0
	})
	if h := watch.Servers()[0]; h.Counts.Evictions != 0 ||
		!slices.ContainsFunc(h.Events, func(e memcached.Event) bool {
			return e.Kind == memcached.EventReassigned
		}) {
		t.Errorf("counts %+v, events %+v", h.Counts, h.Events)
	}
	safe := servertest.NewMemcached(t, "-M", "-m", "4", "-o", "no_slab_reassign")
	send(t, safe, "slabs reassign 5 20\r\n", "CLIENT_ERROR slab reassignment disabled\r\n")
}

// TestResetStatisticsAreNoRestart resets the counters.
func TestResetStatisticsAreNoRestart(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t, "-m", "2", "-t", "1")
	watch := watchOf(t, connect(t, server.Addr()))
	send(t, server, "flush_all\r\n", "OK\r\n")
	store(t, server, 10_000)
	watch.Look(t.Context())
	events := len(watch.Servers()[0].Events)
	send(t, server, "stats reset\r\n", "RESET\r\n")
	watch.Look(t.Context())
	if h := watch.Servers()[0]; len(h.Events) != events || h.Seen != (memcached.Seen{}) ||
		h.Counts.Evictions != 0 {
		t.Errorf("events %+v, seen %+v, counts %+v", h.Events, h.Seen, h.Counts)
	}
}

func TestServerThatStopsAndStarts(t *testing.T) {
	t.Parallel()
	skipWithShort(t)
	server := servertest.NewMemcached(t, "-t", "1")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	var log lines
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: 3 * time.Second})
	watch := b.Watch(memcached.WatchOptions{Every: 10 * time.Millisecond, Log: zerolog.New(&log)})
	if err := watch.Check(); err != nil {
		t.Errorf("before the first poll: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watch.Run(ctx) }()
	state := func(want memcached.State) {
		t.Helper()
		await(t, "state "+string(want), func() bool { return watch.Servers()[0].State == want })
	}
	state(memcached.StateUnreachable)
	if err := watch.Check(); err != nil {
		t.Errorf("a server that does not answer is no reason to refuse: %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	state(memcached.StateUnsafe)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	state(memcached.StateUnreachable)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	state(memcached.StateUnsafe)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if h := watch.Servers()[0]; h.Seen != (memcached.Seen{Outages: 2}) {
		t.Errorf("seen %+v, want two outages and no restart", h.Seen)
	}
	for kind, want := range map[string]int{"unreachable": 2, "back": 2, "unsafe": 3, "restarted": 0,
		"corrected": 0} {
		if lines := log.about(kind); len(lines) != want {
			t.Errorf("%s is logged %d times, want %d: %v", kind, len(lines), want, lines)
		}
	}
}

// TestSeveralServersAreAskedAtOnce stops two of three servers. The watch asks both at the same time
// and still sees the third.
func TestSeveralServersAreAskedAtOnce(t *testing.T) {
	skipWithShort(t)
	well := servertest.NewMemcached(t, recommended(t)...)
	first, second := listen(t), listen(t)
	b := open(t, memcached.Options{Servers: []string{first.Addr().String(), well.Addr(),
		second.Addr().String()}, Timeout: time.Hour})
	watch := watchOf(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		watch.Look(ctx)
	}()
	for _, silent := range []net.Listener{first, second} {
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	await(t, "the answer of the third", func() bool {
		return watch.Servers()[1].State == memcached.StateSafe
	})
	cancel()
	<-polled
	for _, i := range []int{0, 2} { // the watch's end is no outage
		if h := watch.Servers()[i]; h.State != memcached.StateUnknown || len(h.Events) != 0 {
			t.Errorf("server %d: %+v", i, h)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	silent := listen(t)
	watch := watchOf(t, open(t, memcached.Options{Servers: []string{silent.Addr().String()},
		Timeout: time.Hour}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil {
			defer conn.Close()
		}
		cancel()
	}()
	if err := watch.Run(ctx); err != nil {
		t.Error(err)
	}
}

// lines stores the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) Write(line []byte) (int, error) {
	var fields map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(line), &fields); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fields)
	return len(line), nil
}

// about returns the lines about one kind of event.
func (l *lines) about(kind string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line["event"] == kind {
			found = append(found, line)
		}
	}
	return found
}

func watchOf(t *testing.T, b *memcached.Backend) *memcached.Watch {
	t.Helper()
	return b.Watch(memcached.WatchOptions{Log: zerolog.New(zerolog.NewTestWriter(t))})
}

// complaints fails the test unless exactly the named settings have the rating.
func complaints(t *testing.T, w *memcached.Watch, v memcached.Rating, want ...string) {
	t.Helper()
	h := w.Servers()[0]
	var got []string
	for _, s := range h.Complaints(v) {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q (%s %s)", v, got, want, h.State, h.Error)
	}
}

// send sends a command to a server and expects the reply.
func send(t *testing.T, server *servertest.Memcached, command, want string) {
	t.Helper()
	conn := dial(t, server)
	defer conn.Close()
	if _, err := conn.Write([]byte(command)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 200)
	if n, err := conn.Read(reply); err != nil || string(reply[:n]) != want {
		t.Fatalf("%q: got %q (%v), want %q", command, reply[:n], err, want)
	}
}

func dial(t *testing.T, server *servertest.Memcached) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// store stores up to n keys of 200 bytes, until the server refuses.
func store(t *testing.T, server *servertest.Memcached, n int) {
	t.Helper()
	var requests strings.Builder
	value := strings.Repeat("x", 200)
	for i := range n {
		fmt.Fprintf(&requests, "set filler%06d 0 0 200 noreply\r\n%s\r\n", i, value)
	}
	requests.WriteString("mn\r\n")
	conn := dial(t, server)
	defer conn.Close()
	go func() { _, _ = conn.Write([]byte(requests.String())) }()
	var reply []byte
	for !bytes.HasSuffix(reply, []byte("MN\r\n")) { // errors of noreply come back all the same
		buffer := make([]byte, 64<<10)
		got, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		reply = append(reply, buffer[:got]...)
	}
}

// refuseConnections opens connections until one is refused, closes them, and waits until
// the server accepts new ones.
func refuseConnections(t *testing.T, server *servertest.Memcached) {
	t.Helper()
	var conns []net.Conn
	for range 101 {
		conns = append(conns, dial(t, server))
	}
	last := conns[len(conns)-1]
	reply := make([]byte, 100)
	n, err := last.Read(reply)
	if err != nil || !strings.Contains(string(reply[:n]), "Too many open connections") {
		t.Fatalf("the last connection: %q, %v", reply[:n], err)
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "a connection after the flood", func() bool { return answers(t, server) })
}

// answers reports whether the server accepts a connection and answers on it.
func answers(t *testing.T, server *servertest.Memcached) bool {
	t.Helper()
	conn := dial(t, server)
	defer conn.Close()
	if _, err := conn.Write([]byte("mn\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 100)
	n, err := conn.Read(reply)
	return err == nil && string(reply[:n]) == "MN\r\n"
}

// slabClass returns the class of the fillers, as the server numbers it.
func slabClass(t *testing.T, server *servertest.Memcached) string {
	t.Helper()
	conn := dial(t, server)
	defer conn.Close()
	if _, err := conn.Write([]byte("stats items\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 64<<10)
	n, err := conn.Read(reply)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(reply[:n]), "STAT items:")
	class, _, _ := strings.Cut(rest, ":")
	return class
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener
}
