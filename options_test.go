package holdfast_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// poolOf returns a pool with at most that many connections. It has connected to nothing yet.
func poolOf(t *testing.T, connections string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(),
		"postgres://127.0.0.1:1/none?pool_max_conns="+connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestNewRefusesDatabases checks that a mistake in the database is an error of New, and not of
// Open.
func TestNewRefusesDatabases(t *testing.T) {
	const url = "postgres://127.0.0.1:1/none"
	for name, c := range map[string]struct {
		options []holdfast.Option
		want    string // in the error; "" for none
	}{
		"no pool": {[]holdfast.Option{holdfast.WithPostgresPool(nil)},
			"found nil in WithPostgresPool, expected a pool"},
		"a pool and a URL": {[]holdfast.Option{holdfast.WithPostgres(url),
			holdfast.WithPostgresPool(poolOf(t, "6"))},
			"found WithPostgres and WithPostgresPool, expected one of them"},
		"a pool and a file": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "6")),
			holdfast.WithSQLite("a.db")}, "found WithPostgresPool and WithSQLite"},
		"a small pool": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "5"))},
			"the pool has at most 5 connections, expected at least 6"},
		"a pool": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "6"))}, ""},
		"one database twice": {[]holdfast.Option{holdfast.WithPostgres(url),
			holdfast.WithPostgres(url)}, ""},
	} {
		_, err := holdfast.New(append(c.options, holdfast.WithLog(zerolog.Nop(), nil))...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestNewRefusesUnknownOverridables checks that New knows the params of handlers in Go.
func TestNewRefusesUnknownOverridables(t *testing.T) {
	job := holdfast.Job[rollupParams]{Name: "rollup", Schedule: schedule.Cron("@hourly"),
		NoTables: true, Params: rollupParams{Region: "north"}, Overridable: []string{"regoin"},
		Run: func(context.Context, *jobs.Run, rollupParams) error { return nil }}
	const want = `job "rollup": overridable[0]: unknown param "regoin"; did you mean "region"?`
	if _, err := holdfast.New(holdfast.WithJobs(job)); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
