package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// servers returns fixed states of memcached servers.
type servers []memcached.Health

func (s servers) Servers() []memcached.Health { return s }

// healthy is a server with the settings of deploy/memcached.conf.
func healthy(address string) memcached.Health {
	return memcached.Health{
		Server: address, State: memcached.StateSafe, Since: ago(3 * time.Hour),
		ReadAt: ago(2 * time.Second), Version: "1.6.18",
		StartedAt: ago(26 * time.Hour),
		Usage: memcached.Usage{Connections: 131, Items: 12041, Bytes: 4 << 20,
			LimitBytes: 128 << 20},
		Settings: []memcached.Setting{
			{Name: "evictions", Value: "off", Rating: memcached.Good},
			{Name: "flush_enabled", Value: "no", Rating: memcached.Good},
		},
		Events: []memcached.Event{},
	}
}

// troubled is a server with every kind of problem.
func troubled(address string) memcached.Health {
	h := healthy(address)
	h.State, h.StartedAt = memcached.StateUnsafe, ago(3*time.Minute)
	h.Settings = []memcached.Setting{
		{Name: "evictions", Value: "on", Rating: memcached.Unsafe, Want: "off",
			Mend: "start it with -M", Why: "a full server drops items"},
		{Name: "flush_enabled", Value: "", Rating: memcached.Unsafe, Want: "no",
			Mend: "start it with -F", Why: "one flush_all drops every lock"},
		{Name: "idle_timeout", Value: "60", Rating: memcached.Advice, Want: "0",
			Mend: "start it without -o idle_timeout", Why: "replicas keep connections"},
	}
	h.Seen = memcached.Seen{Restarts: 1, Flushes: 2, Evictions: 1204}
	h.Events = []memcached.Event{
		{Kind: memcached.EventEvicted, At: ago(20 * time.Second), Count: 4},
		{Kind: memcached.EventEvicted, At: ago(80 * time.Second), Count: 1200},
		{Kind: memcached.EventFlushed, At: ago(2 * time.Minute), Count: 1},
		{Kind: memcached.EventUnsafe, At: ago(3 * time.Minute), Setting: &h.Settings[0]},
		{Kind: memcached.EventRestarted, At: ago(3 * time.Minute)},
		{Kind: memcached.EventFull, At: ago(2 * time.Hour), Count: 9},
	}
	return h
}

// gone is a server that does not reply.
func gone(address string) memcached.Health {
	h := healthy(address)
	h.State, h.Since = memcached.StateUnreachable, ago(42*time.Second)
	h.Error = "memcached " + address + ": dial tcp " + address + ": connect: connection refused"
	return h
}

// watched is a calm cluster with memcached servers in every state. Its replicas have different
// lists of servers.
func watched() Options {
	o := calm()
	h := o.Store.(*history)
	h.replicas = append(h.replicas, liveReplica(3, "replica-2", time.Second, 0),
		liveReplica(4, "replica-4", time.Second, 0))
	h.replicas[0].LockServers, h.replicas[1].LockServers, h.replicas[2].LockServers = "5f3a",
		"5f3a", "77b0"
	o.Memcached = servers{
		healthy("cache-1.internal:11211"), troubled("cache-2.internal:11211"),
		gone("10.0.3.9:11211"),
		{Server: "10.0.3.10:11211", State: memcached.StateUnknown, Settings: []memcached.Setting{},
			Events: []memcached.Event{}},
	}
	return o
}

func TestMemcachedIsServed(t *testing.T) {
	o := watched()
	o.Memcached = servers{troubled("cache-2.internal:11211")}
	handler := newServer(t, o).Handler()
	reply := get(t, handler, "/api/v1/memcached")
	if reply.Code != http.StatusOK {
		t.Errorf("status %d", reply.Code)
	}
	golden(t, "memcached.json", reply.Body.Bytes())
	indented := strings.ReplaceAll(strings.TrimSpace(reply.Body.String()), "\n", "\n  ")
	if overview := get(t, handler, "/api/v1/overview").
		Body.String(); !strings.Contains(overview, `"memcached": `+indented) {
		t.Errorf("the overview lacks %s:\n%s", indented, overview)
	}
	if reply := get(t, handler, "/api/v1/memcached?x=1"); reply.Code != http.StatusBadRequest {
		t.Errorf("with an unknown parameter: %d", reply.Code)
	}
}

func TestMemcachedIsNotServedWithoutMemcached(t *testing.T) {
	handler := newServer(t, calm()).Handler()
	if got, want := get(t, handler, "/api/v1/memcached").Body.String(),
		"{\n  \"seen_by\": \"replica-1\",\n  \"servers\": []\n}\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := get(t, handler, "/api/v1/overview").
		Body.String(); strings.Contains(got, "memcached") {
		t.Errorf("got it on the overview: %s", got)
	}
	if got := get(t, handler, "/").Body.String(); strings.Contains(got, "memcached\"") {
		t.Error("note about memcached: got one, want none")
	}
}

// TestMemcachedIsServedWithoutTheStore checks that the page about memcached works while the store
// is unavailable.
func TestMemcachedIsServedWithoutTheStore(t *testing.T) {
	o := down()
	o.Memcached = servers{healthy("cache-1.internal:11211")}
	if reply := get(t, newServer(t, o).Handler(),
		"/api/v1/memcached"); reply.Code != http.StatusOK ||
		!strings.Contains(reply.Body.String(), "cache-1.internal") {
		t.Errorf("got %d %s, want 200 and the server", reply.Code, reply.Body)
	}
}

func TestMemcachedProblems(t *testing.T) {
	var got []string
	for _, p := range statusOf(t, watched()).Problems {
		if p.Severity != Amber {
			t.Errorf("%s is %s", p.Text, p.Severity)
		}
		got = append(got, p.Text)
	}
	want := []string{
		"The replicas have two different lists of memcached servers (replica-1, replica-3 / " +
			"replica-2). Locks rely on the store. Configure the same servers in the same " +
			"order on all replicas.",
		"memcached 10.0.3.9:11211 does not answer replica-1: dial tcp 10.0.3.9:11211: " +
			"connect: connection refused. Locks rely on the store alone.",
		"memcached cache-2.internal:11211 evicted 4 entries, was flushed and lost its " +
			"locks, restarted and lost its locks.",
		"memcached cache-2.internal:11211 is not safe for locks: evictions is on (start it with " +
			"-M), flush_enabled is not reported (start it with -F). Locks rely on the store.",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems are\n%s\nexpected\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

func TestListsOfIgnoredReplicas(t *testing.T) {
	for name, change := range map[string]func(v *storage.ReplicaView){
		"alike":       func(v *storage.ReplicaView) { v.LockServers = "5f3a" },
		"not known":   func(v *storage.ReplicaView) { v.LockServers = "" },
		"not living":  func(v *storage.ReplicaView) { v.EndedAt = pointer(ago(time.Minute)) },
		"run out too": func(v *storage.ReplicaView) { v.ExpiresAt = noon },
	} {
		o := calm()
		h := o.Store.(*history)
		h.replicas[0].LockServers, h.replicas[1].LockServers = "5f3a", "77b0"
		change(&h.replicas[1])
		if text := problemsOf(t, o); strings.Contains(text, "different lists") {
			t.Errorf("%s: got problems %q, want none about lists of servers", name, text)
		}
	}
}
