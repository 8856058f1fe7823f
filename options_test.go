package holdfast_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/otlp"
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
// Open, and that a program without its configuration does not use the default database.
func TestNewRefusesDatabases(t *testing.T) {
	const url = "postgres://127.0.0.1:1/none"
	const emptyURL = `found "" in WithPostgres, expected a URL such as postgres://holdfast@db/app`
	for name, c := range map[string]struct {
		options []holdfast.Option
		want    string // in the error; "" for none
	}{
		"no pool": {[]holdfast.Option{holdfast.WithPostgresPool(nil)},
			"found nil in WithPostgresPool, expected a pool"},
		"no URL":    {[]holdfast.Option{holdfast.WithPostgres("")}, emptyURL},
		"blank URL": {[]holdfast.Option{holdfast.WithPostgres(" ")}, emptyURL},
		"a pool and a URL": {[]holdfast.Option{holdfast.WithPostgres(url),
			holdfast.WithPostgresPool(poolOf(t, "6"))},
			"found WithPostgres and WithPostgresPool, expected one of them"},
		"a pool and a file": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "6")),
			holdfast.WithSQLite(sqlite.Driver, "a.db")}, "found WithPostgresPool and WithSQLite"},
		"a small pool": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "5"))},
			"the pool has at most 5 connections, expected at least 6"},
		"a pool of one connection": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "1"))},
			"the pool has at most 1 connection, expected at least 6"},
		"a pool": {[]holdfast.Option{holdfast.WithPostgresPool(poolOf(t, "6"))}, ""},
		"a pool and a URL of jobs": {[]holdfast.Option{
			holdfast.WithPostgresPool(poolOf(t, "6")),
			holdfast.WithConfig(parsed(t, "database: {url: 'postgres://a@h/d', jobs_url: "+
				"'postgres://b@h/d'}"))},
			"found database.jobs_url and a pool of the program"},
		"no path": {[]holdfast.Option{holdfast.WithPostgres(url), holdfast.WithConfigFile("")},
			`found "" in WithConfigFile, expected a path`},
		"no configuration": {[]holdfast.Option{holdfast.WithConfig(nil)},
			"found nil in WithConfig, expected a configuration"},
		"one database twice": {[]holdfast.Option{holdfast.WithPostgres(url),
			holdfast.WithPostgres(url)}, ""},
	} {
		_, err := holdfast.New(append(c.options, holdfast.WithLog(zerolog.Nop(), nil))...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestNewRefusesNil checks that New names an option that got nil, or a pointer that is nil.
func TestNewRefusesNil(t *testing.T) {
	for _, c := range []struct {
		name   string
		option holdfast.Option
	}{
		{"as option 2", nil},
		{"in WithJobs", holdfast.WithJobs(nil)},
		{"in WithJobs", holdfast.WithJobs((*holdfast.Job[any])(nil))},
		{"in WithSlog", holdfast.WithSlog(nil)},
		{"in WithDriver", holdfast.WithDriver(nil)},
		{"in WithAdmin", holdfast.WithAdmin(nil)},
		{"in WithPage", holdfast.WithPage(nil, "127.0.0.1:1")},
		{"in WithMiddleware", holdfast.WithMiddleware(nil)},
		{"in WithListeners", holdfast.WithListeners(nil)},
		{"in WithAuthorizer", holdfast.WithAuthorizer(nil)},
		{"in WithTracerProvider", holdfast.WithTracerProvider(nil)},
		{"in WithTracing", holdfast.WithTracing(nil)},
		{"in WithRegisterer", holdfast.WithRegisterer(nil)},
		{"in WithRegisterer", holdfast.WithRegisterer((*prometheus.Registry)(nil))},
	} {
		_, err := holdfast.New(holdfast.WithPostgres("postgres://127.0.0.1:1/none"), c.option)
		want := "found nil " + c.name + ", expected "
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := holdfast.ForCommands(nil); err == nil || err.Error() !=
		"found nil as option 1, expected an Option" {
		t.Errorf("options of a command line: got %v, want an error that names the option", err)
	}
}

// TestOptionsReplaceValuesOfTheFile checks that the file is checked with the values of the options,
// and not with those that they replace.
func TestOptionsReplaceValuesOfTheFile(t *testing.T) {
	postgres := holdfast.WithPostgres("postgres://127.0.0.1:1/none")
	embedded := holdfast.WithSQLite(sqlite.Driver, "a.db")
	const memcached = "locking: {memcached: {servers: ['127.0.0.1:11211']}}"
	for name, c := range map[string]struct {
		text   string
		option holdfast.Option
		want   string // in the error; "" for none
	}{
		"memcached":            {memcached, postgres, ""},
		"memcached and a pool": {memcached, holdfast.WithPostgresPool(poolOf(t, "6")), ""},
		"memcached and SQLite": {memcached, embedded, "found memcached with a sqlite:// database"},
		"schema":               {"database: {schema: jobs}", postgres, ""},
		"schema and SQLite":    {"database: {schema: jobs, url: 'postgres://h/d'}", embedded, "SQLite has no schemas"},
		"jobs_url": {"database: {url: 'postgres://a@h/d', jobs_url: " +
			"'postgres://b@h/d'}", postgres, ""},
		"jobs_url and SQLite": {"database: {url: 'postgres://a@h/d', jobs_url: " +
			"'postgres://b@h/d'}", embedded, "SQLite has no roles"},
		"another schema":           {"database: {url: 'postgres://h/d', schema: X}", holdfast.WithSchema("x"), ""},
		"an invalid schema":        {"database: {url: 'postgres://h/d'}", holdfast.WithSchema("X"), `found "X"`},
		"another address":          {"admin: {listen: '0.0.0.0:80'}", holdfast.WithPage(admin.Page, "127.0.0.1:0"), ""},
		"an address without users": {"", holdfast.WithPage(admin.Page, "0.0.0.0:80"), "without admin.users"},
	} {
		path := filepath.Join(t.TempDir(), "holdfast.yaml")
		text := c.text + "\njobs: [{name: a, handler: command, params: {command: [x]}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := holdfast.New(holdfast.WithConfigFile(path), holdfast.WithDriver(sqlite.Driver),
			holdfast.WithAdmin(admin.Page), c.option, holdfast.WithLog(zerolog.Nop(), nil))
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

// TestTracingNeedsAnExporter checks that a program that cannot send spans refuses a configuration
// with a collector.
func TestTracingNeedsAnExporter(t *testing.T) {
	config, err := configs.Parse("holdfast.yaml", []byte(
		"database: {url: 'postgres://h/d'}\ntracing: {endpoint: 'http://127.0.0.1:4318'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := holdfast.WithAdmin(admin.Page)
	if _, err := holdfast.New(holdfast.WithConfig(config), page); err == nil ||
		!strings.Contains(err.Error(), "expected holdfast.WithTracing(otlp.Exporter)") {
		t.Errorf("without an exporter: got %v", err)
	}
	if _, err := holdfast.New(holdfast.WithConfig(config), page,
		holdfast.WithTracing(otlp.Exporter)); err != nil {
		t.Errorf("with an exporter: %v", err)
	}
}

// TestSQLiteNeedsADriver checks that a program without SQLite refuses a SQLite database, which is
// also the default, and says what to write.
func TestSQLiteNeedsADriver(t *testing.T) {
	const driver = "sqlite.Driver of the package github.com/holdfast-dev/holdfast/jobs/sqlite"
	for _, test := range []struct {
		given []holdfast.Option
		want  string
	}{
		{nil, "found no database, expected holdfast.WithPostgres, holdfast.WithPostgresPool, " +
			"or holdfast.WithSQLite with " + driver},
		{[]holdfast.Option{holdfast.WithSQLite(nil, "a.db")},
			"found nil as the driver in WithSQLite, expected " + driver},
		{[]holdfast.Option{holdfast.WithConfig(parsed(t, "database: {url: 'sqlite://a.db'}\n"+
			"admin: {listen: ''}"))},
			"found the SQLite file a.db as the database of a program without SQLite, expected " +
				"holdfast.WithPostgres, or holdfast.WithDriver(sqlite.Driver) with the package " +
				"github.com/holdfast-dev/holdfast/jobs/sqlite"},
	} {
		if _, err := holdfast.New(test.given...); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	if _, err := holdfast.New(holdfast.WithSQLite(sqlite.Driver, "a.db")); err != nil {
		t.Errorf("with a driver: %v", err)
	}
}

// TestPageNeedsItsPackage checks that a program without the page refuses a configuration with an
// address for it, which the default has, and says what to write.
func TestPageNeedsItsPackage(t *testing.T) {
	parse := func(text string) holdfast.Option {
		t.Helper()
		config, err := configs.Parse("holdfast.yaml",
			[]byte("database: {url: 'postgres://h/d'}\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return holdfast.WithConfig(config)
	}
	postgres := holdfast.WithPostgres("postgres://h/d")
	for name, given := range map[string][]holdfast.Option{
		"the default": {parse("")},
		"an address":  {parse("admin: {listen: '127.0.0.1:1'}")},
	} {
		if _, err := holdfast.New(given...); err == nil ||
			!strings.Contains(err.Error(), "expected holdfast.WithAdmin(admin.Page)") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, given := range map[string][]holdfast.Option{
		"no configuration":     {postgres},
		"no address":           {parse("admin: {listen: ''}")},
		"with the page":        {parse(""), holdfast.WithAdmin(admin.Page)},
		"an address with code": {postgres, holdfast.WithPage(admin.Page, "127.0.0.1:1")},
	} {
		if _, err := holdfast.New(given...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMissingPartsAreReportedTogether checks that one error names all parts that a program lacks.
func TestMissingPartsAreReportedTogether(t *testing.T) {
	config, err := configs.Parse("holdfast.yaml", []byte(
		"database: {url: 'sqlite://a.db'}\ntracing: {endpoint: 'http://127.0.0.1:4318'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = holdfast.New(holdfast.WithConfig(config))
	for _, want := range []string{"holdfast.WithDriver(sqlite.Driver)",
		"holdfast.WithTracing(otlp.Exporter)", "holdfast.WithAdmin(admin.Page)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

// TestCommandsTakeNoConfiguration checks that the options of a command line may not set the
// configuration, which the flag --config names.
func TestCommandsTakeNoConfiguration(t *testing.T) {
	for _, given := range []holdfast.Option{holdfast.WithPage(admin.Page, "127.0.0.1:1"),
		holdfast.WithConfigFile("a.yaml"), holdfast.WithPostgres("postgres://h/d"),
		holdfast.WithConfig(nil)} {
		if _, err := holdfast.ForCommands(given); err == nil ||
			!strings.Contains(err.Error(), "--config") {
			t.Errorf("got %v, want an error that names --config", err)
		}
	}
	if program, err := holdfast.ForCommands(holdfast.WithLog(zerolog.Nop(), nil)); err != nil ||
		program.Log == nil {
		t.Errorf("got %v, want the log", err)
	}
}

func parsed(t *testing.T, text string) *configs.Config {
	t.Helper()
	config, err := configs.Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}
