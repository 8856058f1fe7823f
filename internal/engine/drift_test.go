package engine

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// driftOf is how the configurations differ.
type driftOf []storage.JobDrift

func (d driftOf) Drift(context.Context, int) ([]storage.JobDrift, error) { return d, nil }

func TestListsOfServersAreCompared(t *testing.T) {
	now := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	live := func(name, list string) storage.ReplicaView {
		return storage.ReplicaView{Name: name, LockServers: list, ExpiresAt: now.Add(time.Second)}
	}
	expired, ended := live("b", "other"), live("b", "other")
	expired.ExpiresAt, ended.EndedAt = now, &now
	const differ, same = `"differ_from":["b"]`, "the same list of memcached servers again"
	for name, test := range map[string]struct {
		looks [][]storage.ReplicaView
		lists int64    // the last number of lists
		want  []string // lines of the log
	}{
		"alone":                           {[][]storage.ReplicaView{{live("a", "own")}}, 1, nil},
		"equal":                           {[][]storage.ReplicaView{{live("a", "own"), live("b", "own")}}, 1, nil},
		"different":                       {[][]storage.ReplicaView{{live("a", "own"), live("b", "other")}}, 2, []string{differ}},
		"before its own session shows":    {[][]storage.ReplicaView{{live("b", "other")}}, 2, []string{differ}},
		"three lists":                     {[][]storage.ReplicaView{{live("a", "own"), live("b", "other"), live("c", "third")}}, 3, []string{`"differ_from":["b","c"]`}},
		"two sessions of one replica":     {[][]storage.ReplicaView{{live("b", "other"), live("b", "third")}}, 3, []string{differ}},
		"logged once":                     {[][]storage.ReplicaView{{live("b", "other")}, {live("b", "other")}}, 2, []string{differ}},
		"corrected":                       {[][]storage.ReplicaView{{live("b", "other")}, {live("b", "own")}, {live("b", "own")}}, 1, []string{differ, same}},
		"and broken again":                {[][]storage.ReplicaView{{live("b", "other")}, {}, {live("b", "other")}}, 2, []string{differ, same, differ}},
		"expired":                         {[][]storage.ReplicaView{{expired}}, 1, nil},
		"ended":                           {[][]storage.ReplicaView{{ended}}, 1, nil},
		"of an older version":             {[][]storage.ReplicaView{{live("b", "")}}, 1, nil},
		"earlier session of this replica": {[][]storage.ReplicaView{{live("a", "other")}}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			l := newDrift(driftOf(nil), "a", "own", func() string { return "" }, func() time.Time {
				return now
			}, zerolog.New(&log).Level(zerolog.InfoLevel))
			for _, look := range test.looks {
				l.compare(t.Context(), sessionList{open: look})
			}
			if got := l.servers.number.Load(); got != test.lists {
				t.Errorf("%d lists, want %d", got, test.lists)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(test.want) {
				t.Fatalf("log is %q, want %q", lines, test.want)
			}
			for i, line := range lines {
				if !strings.Contains(line, test.want[i]) {
					t.Errorf("line %d is %s, want %s", i, line, test.want[i])
				}
			}
		})
	}
}

func TestReplicaWithoutServersComparesNothing(t *testing.T) {
	l := newDrift(nil, "a", "", func() string { return "" }, time.Now, zerolog.Nop())
	l.compare(t.Context(), sessionList{})
	if got := l.servers.number.Load(); got != 0 {
		t.Errorf("%d lists", got)
	}
}

// Replicas differ for longer than a deploy takes.
func TestDriftIsLoggedAndWarnsIfItDoesNotEnd(t *testing.T) {
	start := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	now := start
	replica := func(name, table string, started time.Duration) storage.ReplicaView {
		return storage.ReplicaView{Name: name, ConfigHash: table, StartedAt: start.Add(started),
			ExpiresAt: start.Add(time.Hour)}
	}
	var log bytes.Buffer
	store := driftOf{{Job: "rollup", Newest: []string{"b"}, Older: []string{"a"}},
		{Job: "x", Newest: []string{"a"}, Without: []string{"b"}}}
	d := newDrift(store, "a", "", func() string { return "own" }, func() time.Time { return now },
		zerolog.New(&log).Level(zerolog.InfoLevel))
	const info, warning, over = `"level":"info"`, `"level":"warn"`,
		"the same jobs in their configurations again"
	const detail = `"jobs":["rollup: a has an older definition","x: only a knows it"],"differ_from":["b"]`
	step := func(at time.Duration, says []string, replicas ...storage.ReplicaView) {
		t.Helper()
		log.Reset()
		now = start.Add(at)
		for range 2 { // the second comparison must log nothing new
			d.compare(t.Context(), sessionList{open: replicas})
		}
		if got := log.String(); strings.Count(got, "\n") != min(len(says), 1) {
			t.Errorf("at %s: got log %q", at, got)
		}
		for _, text := range says {
			if !strings.Contains(log.String(), text) {
				t.Errorf("at %s: got log %q, want %s", at, log.String(), text)
			}
		}
	}
	a := replica("a", "own", -time.Hour)
	step(0, nil, a, replica("b", "own", -time.Hour))
	step(time.Minute, []string{info, detail}, a, replica("b", "new", time.Minute))
	step(2*time.Minute, nil, a, replica("b", "new", time.Minute),
		replica("c", "new", 2*time.Minute))
	step(3*time.Minute+59*time.Second, nil, a, replica("b", "new", time.Minute),
		replica("c", "own", 2*time.Minute))
	step(4*time.Minute, []string{warning, detail}, a, replica("b", "new", time.Minute),
		replica("c", "own", 2*time.Minute))
	step(5*time.Minute, nil, a, replica("b", "new", time.Minute),
		replica("c", "new", 5*time.Minute))
	step(6*time.Minute, []string{info, over}, a)
	if d.table.number.Load() != 1 {
		t.Errorf("%d tables", d.table.number.Load())
	}
	// A difference to a newly started replica is a deploy, whatever the age of the others.
	step(7*time.Minute, []string{info, detail}, replica("a", "own", 7*time.Minute),
		replica("b", "new", -time.Hour))
}

func TestDriftInWords(t *testing.T) {
	for want, drift := range map[string]storage.JobDrift{
		"rollup: b has an older definition":                         {Job: "rollup", Newest: []string{"a"}, Older: []string{"b"}},
		"rollup: b, c and d have an older definition":               {Job: "rollup", Newest: []string{"a"}, Older: []string{"b", "c", "d"}},
		"rollup: only a knows it":                                   {Job: "rollup", Newest: []string{"a"}, Without: []string{"b", "c"}},
		"rollup: c does not know it":                                {Job: "rollup", Newest: []string{"a", "b"}, Without: []string{"c"}},
		"rollup: b has an older definition; c and d do not know it": {Job: "rollup", Newest: []string{"a"}, Older: []string{"b"}, Without: []string{"c", "d"}},
	} {
		if got := drift.String(); got != want {
			t.Errorf("%+v: %q, want %q", drift, got, want)
		}
	}
}

func TestHashOfACronTable(t *testing.T) {
	table := func(definitions ...storage.Definition) *cronTable {
		table := tableOf()
		for _, d := range definitions {
			e := &entry{Job: jobs.Job{Name: d.Name, Description: d.Description}, hash: d.Hash}
			if d.Source == storage.FromStore {
				e.spec = &storage.Spec{Job: d.Name}
			}
			table.put(e)
		}
		return table
	}
	a, b := storage.Definition{Name: "a", Hash: "1"},
		storage.Definition{Name: "b", Hash: "2", Source: storage.FromConfig}
	own := table(a, b).hash()
	for name, other := range map[string]*cronTable{
		"another definition": table(a, storage.Definition{Name: "b", Hash: "3"}), "one job less": table(a), "another name": table(a, storage.Definition{Name: "c", Hash: "2"}), "no jobs": table(),
	} {
		if other.hash() == own || other.hash() == "" {
			t.Errorf("%s: the hash is %s", name, other.hash())
		}
	}
	for name, other := range map[string]*cronTable{
		"new description":  table(storage.Definition{Name: "a", Hash: "1", Description: "what a does"}, b),
		"added at runtime": table(a, b, storage.Definition{Name: "c", Hash: "4", Source: storage.FromStore}),
	} {
		if other.hash() != own {
			t.Errorf("%s: the hash is another", name)
		}
	}
}
