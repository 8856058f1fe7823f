package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestSchemaOfAStatement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, statement, want string }{
		{"holdfast", "SELECT FROM holdfast.runs", "SELECT FROM holdfast.runs"},
		{"second", "SELECT nextval('holdfast.tokens') FROM holdfast.runs r, holdfast.claims",
			"SELECT nextval('second.tokens') FROM second.runs r, second.claims"},
		{"second", "SELECT FROM my_holdfast.runs", "SELECT FROM my_holdfast.runs"},
		{"my_holdfast", "holdfast.runs", "my_holdfast.runs"},
	} {
		name := schemaName(c.schema)
		got := name.in(c.statement)
		if got != c.want || name.in(got) != got {
			t.Errorf("%q in %s: got %q, then %q, want %q", c.statement, c.schema, got,
				name.in(got), c.want)
		}
	}
}

// openSchema opens a store in a schema, which it creates.
func openSchema(t *testing.T, url, schema, name string) *Store {
	t.Helper()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	s, err := Open(t.Context(), Options{URL: url + separator + "application_name=" + name,
		Schema: schema, Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.lockTimeout = "20s"
	t.Cleanup(s.Close)
	return s
}

// TestConformanceInAnotherSchema runs all rules of a store in a database whose schema holdfast was
// dropped, so that no statement can use it.
func TestConformanceInAnotherSchema(t *testing.T) {
	t.Parallel()
	soak.Only(t)
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		url := database(t)
		s := &harness{t: t, url: url, schema: "second"}
		s.exec("DROP SCHEMA " + DefaultSchema + " CASCADE")
		s.a = openSchema(t, url, "second", "a")
		return jobstest.Fixture{
			Store:  s.a,
			Second: func() storage.Store { return openSchema(t, url, "second", "b") },
			Expire: s.expire, Pause: s.pauseJobs, Pass: s.pass, PassEnded: s.passEnded,
		}
	})
}

// startedBy waits for a start.
func startedBy(s *harness, done <-chan started) []storage.StartResult {
	s.t.Helper()
	got := <-done
	if got.err != nil {
		s.t.Fatal(got.err)
	}
	return got.results
}

// TestTwoClustersInOneDatabase runs a job of the same name in two schemas. Neither cluster sees the
// other's claim, and a transaction of one is not fenced by the token of the other.
func TestTwoClustersInOneDatabase(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	other := openSchema(t, s.url, "second", "other")
	if s.a.ClusterID() == other.ClusterID() || s.a.channel() == other.channel() {
		t.Fatalf("cluster %s is in both schemas", other.ClusterID())
	}
	start := func(store *Store) storage.StartResult {
		session := s.session(store, "replica")
		r := request(t, "rollup", "sales")
		s.register(store, session, storage.Definition{Name: "rollup", Hash: "h"})
		return startedBy(s, s.start(store, session, r))[0]
	}
	first, second := start(s.a), start(other)
	if first.Token == 0 || second.Token == 0 {
		t.Fatalf("starts: %+v and %+v, want two tokens", first, second)
	}
	if claims := query[int](s, "SELECT count(*) FROM holdfast.claims"); claims != 1 {
		t.Errorf("schema holdfast has %d claims, want 1", claims)
	}
	s.exec("DELETE FROM holdfast.claims") // fences with this token must now fail in one cluster
	for _, c := range []struct {
		store *Store
		token jobs.Token
		holds bool
	}{{s.a, first.Token, false}, {other, second.Token, true}} {
		err := pgx.BeginFunc(t.Context(), s.watcher(), func(tx pgx.Tx) error {
			return c.store.Fence(t.Context(), tx, c.token)
		})
		if (err == nil) != c.holds {
			t.Errorf("fence in schema %s: %v, want it to hold: %v", c.store.schema, err, c.holds)
		}
	}
}

// TestNotificationsOfOneCluster checks that an action in one schema wakes only its own cluster.
func TestNotificationsOfOneCluster(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	other := openSchema(t, s.url, "second", "other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan string, 100)
	for _, store := range []*Store{s.a, other} {
		go func() {
			_ = store.Listen(ctx, func() { heard <- string(store.schema) })
		}()
		if got := <-heard; got != string(store.schema) {
			t.Fatalf("heard %s, want %s", got, store.schema)
		}
	}
	target := storage.Target{Kind: storage.TargetAll}
	anna := storage.Action{Actor: "anna", Via: "go"}
	for range 3 {
		if _, err := other.Pause(t.Context(), anna, target); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Resume(t.Context(), anna, target); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 {
		if got := <-heard; got != "second" {
			t.Fatalf("an action in schema second was heard in %s", got)
		}
	}
}

func TestSchemaNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	url := database(t)
	for name, want := range map[string]string{"Jobs": "expected lower-case letters",
		"pg_jobs": "without pg_", "a-b": "expected lower-case letters",
		"user": "reserved word"} {
		_, err := Open(t.Context(), Options{URL: url, Schema: name, Migrate: true,
			Log: zerolog.Nop()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("schema %s: got %v, want %q", name, err, want)
		}
	}
}
