// Package doctor checks the configuration, and the servers and programs that it names.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// Result is the result of a Check.
type Result string

// The results, from the best to the worst.
const (
	OK      Result = "ok"
	Warning Result = "warning" // it works, and is less safe than it could be
	Failed  Result = "failed"  // a replica cannot work with it, or with fewer guarantees
)

// Check is one check of the configuration or of a server.
type Check struct {
	Name   string `json:"check"`
	Result Result `json:"result"`
	Detail string `json:"detail"` // what was found
	Advice string `json:"advice,omitempty"`
}

// examiner collects checks.
type examiner struct {
	config *configs.Config
	checks []Check
}

// Examine checks the servers that a valid configuration names, without changing them, and whether
// this machine has the programs of its jobs. Each server has about 10 s to answer.
func Examine(ctx context.Context, config *configs.Config) ([]Check, error) {
	e := &examiner{config: config}
	if path, embedded := config.Database.SQLite(); embedded {
		e.examineSQLite(ctx, path)
	} else {
		e.examinePostgres(ctx)
	}
	if err := e.examineDatabases(ctx); err != nil {
		return e.checks, err
	}
	if err := e.examineMemcached(ctx); err != nil {
		return e.checks, err
	}
	e.examinePrograms()
	return e.checks, nil
}

func (e *examiner) ok(name, format string, args ...any) {
	e.add(name, OK, "", format, args...)
}

func (e *examiner) add(name string, result Result, advice, format string, args ...any) {
	e.checks = append(e.checks, Check{name, result, fmt.Sprintf(format, args...), advice})
}

// examineTimeout bounds the inspection of a database.
const examineTimeout = 10 * time.Second

func (e *examiner) examinePostgres(ctx context.Context) {
	store, reached := e.inspect(ctx, "database", "database.url", e.config.Database.URL)
	if !reached {
		return
	}
	e.examineServer(store)
	e.examineSchema(store)
	if store.Superuser {
		e.add("role", Warning, "create a role with the permissions in "+
			"deploy/postgres/roles.sql, and set database.url",
			"%q is a superuser", store.Role)
	} else {
		e.ok("role", "%q is no superuser", store.Role)
	}
	e.examineSettings("settings", store)
	e.examineClock(store)
	e.examineJobsRole(ctx, store)
}

// inspect adds the check of the connection.
func (e *examiner) inspect(ctx context.Context, name, key string, url configs.Secret) (
	postgres.Inspection, bool) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	found, err := postgres.Inspect(ctx, url.Reveal(), e.config.Database.Schema)
	switch {
	case err != nil:
		e.add(name, Failed, "start the server, or correct "+key, "%v", err)
	case found.ReadOnly:
		e.add(name, Failed, "let "+key+" lead to the primary",
			"PostgreSQL %s answers, but is read-only", found.Version)
	case found.Pooled:
		e.ok(name, "PostgreSQL %s answers through a pooler such as pgbouncer; with transaction "+
			"pooling, replicas learn of actions by their polls, within about a second",
			found.Version)
	default:
		e.ok(name, "PostgreSQL %s answers", found.Version)
	}
	return found, err == nil
}

func (e *examiner) examineServer(store postgres.Inspection) {
	const name = "database version"
	if store.VersionNumber < postgres.OldestVersion {
		e.add(name, Failed, "install a newer release", "%s, expected %d or later",
			store.Version, postgres.OldestVersion/10_000)
		return
	}
	e.ok(name, "%s", store.Version)
}

func (e *examiner) examineSchema(store postgres.Inspection) {
	var newer *postgres.SchemaError
	switch {
	case store.Schema == nil:
		e.ok("schema", "up to date, cluster %s", store.Cluster)
	case errors.As(store.Schema, &newer):
		e.add("schema", Failed, "install a newer release of Holdfast", "%v", store.Schema)
	case errors.Is(store.Schema, storage.ErrNotFound) && e.config.Database.Migrate:
		e.add("schema", Warning, "`scheduler run` migrates it when it starts", "%v",
			store.Schema)
	default:
		e.add("schema", Failed, "run `scheduler migrate` as the owner of the schema, then "+
			"deploy/postgres/roles.sql if the replicas use its roles", "%v", store.Schema)
	}
}

// minIdleTimeout is the shortest idle_in_transaction_session_timeout without a warning.
const minIdleTimeout = time.Minute

// examineSettings checks the settings of a connection.
func (e *examiner) examineSettings(name string, c postgres.Inspection) {
	if c.ReadCommitted != nil {
		e.add(name+": isolation", Failed, fmt.Sprintf("ALTER ROLE %q SET "+
			"default_transaction_isolation = 'read committed'", c.Role), "%v", c.ReadCommitted)
	} else {
		e.ok(name+": isolation", "read committed")
	}
	if c.StatementTimeout > 0 {
		e.add(name+": statement_timeout", Warning, fmt.Sprintf("ALTER ROLE %q SET "+
			"statement_timeout = 0, and give jobs a timeout", c.Role),
			"%s: longer calls of the store fail, and longer statements of jobs without a timeout",
			c.StatementTimeout)
	} else {
		e.ok(name+": statement_timeout", "none")
	}
	idle := name + ": idle_in_transaction_session_timeout"
	switch {
	case c.IdleTimeout == 0:
		e.ok(idle, "none; a job with a timeout sets its own limit")
	case c.IdleTimeout < minIdleTimeout:
		e.add(idle, Warning, fmt.Sprintf("ALTER ROLE %q SET "+
			"idle_in_transaction_session_timeout = '10min'", c.Role),
			"%s: a transaction of a job without a timeout fails if its handler pauses for longer",
			c.IdleTimeout)
	default:
		e.ok(idle, "%s", c.IdleTimeout)
	}
}

func (e *examiner) examineClock(store postgres.Inspection) {
	const name = "clock"
	limit := e.config.Clock.MaxOffset
	offset := store.Offset.Round(time.Millisecond)
	if offset.Abs() > limit {
		e.add(name, Failed, "synchronize the clocks of both machines, for example with chrony",
			"the clock of the database is %s ahead; beyond clock.max_offset (%s) this replica "+
				"starts no runs", offset, limit)
		return
	}
	e.ok(name, "the clock of the database is %s ahead", offset)
}

// rolesAdvice is how to give the statements of jobs a role of their own.
const rolesAdvice = "run `psql -1 -v ON_ERROR_STOP=1 -f deploy/postgres/roles.sql DATABASE` as a " +
	"superuser, give the role holdfast_jobs a password, and set database.jobs_url"

// examineJobsRole checks the role for the statements of jobs.
func (e *examiner) examineJobsRole(ctx context.Context, store postgres.Inspection) {
	const name = "role of jobs"
	url := e.config.Database.JobsURL
	if url.IsZero() {
		e.add(name, Warning, rolesAdvice, "statements of jobs use the role %q of the "+
			"replicas, so they can change the audit log", store.Role)
		return
	}
	own, reached := e.inspect(ctx, "database of jobs", "database.jobs_url", url)
	if !reached {
		return
	}
	switch {
	case own.Schema != nil && store.Schema == nil:
		e.add(name, Failed, "run deploy/postgres/roles.sql again", "%q: %v", own.Role,
			own.Schema)
	case own.Cluster != store.Cluster:
		e.add(name, Failed, "let database.jobs_url lead to the database of database.url",
			"its database has cluster %s, expected %s", orNone(own.Cluster), orNone(store.Cluster))
	case own.Role == store.Role:
		e.add(name, Warning, rolesAdvice, "both URLs have the role %q", own.Role)
	case own.Superuser:
		e.add(name, Warning, rolesAdvice, "%q is a superuser", own.Role)
	case own.ChangesAudit:
		e.add(name, Warning, rolesAdvice, "%q can change the audit log", own.Role)
	default:
		e.ok(name, "%q cannot change the audit log", own.Role)
	}
	e.examineSettings("settings of jobs", own)
}

func orNone(cluster uuid.UUID) string {
	if cluster == uuid.Nil {
		return "none"
	}
	return cluster.String()
}

func (e *examiner) examineSQLite(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	store, err := sqlite.Open(ctx, path, sqlite.Options{Log: zerolog.Nop()})
	var newer *sqlite.SchemaError
	switch {
	case err == nil:
		e.ok("database", "%s is readable and up to date, cluster %s", path, store.ClusterID())
		store.Close()
	case errors.As(err, &newer):
		e.add("database", Failed, "install a newer release of Holdfast", "%v", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrNotFound):
		e.add("database", Warning, "`scheduler run` or `scheduler migrate` creates it", "%v",
			err)
	default:
		e.add("database", Failed, "correct database.url, or the permissions of the file",
			"%v", err)
	}
	switch wide, err := sqlite.WideFiles(path); {
	case err != nil:
		e.add("file permissions", Failed, "", "%v", err)
	case len(wide) > 0:
		e.add("file permissions", Warning, "chmod 600 them: params and output of jobs may "+
			"have secrets", "other users may use %s", strings.Join(wide, ", "))
	default:
		e.ok("file permissions", "only the owner may use the file")
	}
}

// examineDatabases checks the databases of jobs, and the tables of their fences.
func (e *examiner) examineDatabases(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(e.config.Databases)) {
		if err := e.examineJobDatabase(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (e *examiner) examineJobDatabase(ctx context.Context, name string) error {
	check := "database " + name
	database, err := app.OpenJobDatabase(ctx, e.config, name, nil, zerolog.Nop())
	if err != nil {
		e.add(check, Failed, "correct databases."+name, "%v", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	switch err := database.Check(ctx); {
	case errors.Is(err, storage.ErrUnavailable), postgres.RefusedConnection(err):
		e.add(check, Failed, "start the server, or correct databases."+name+".url", "%v", err)
	case err != nil:
		e.add(check, Failed, "run `scheduler fence install --database "+name+"`, and give "+
			"the role of the jobs the permissions to use the tables", "%v", err)
	case e.config.Databases[name].Fence == configs.NoFence:
		e.add(check, Warning, "set fence: table", "superseded runs can write to it")
	default:
		e.ok(check, "it answers and has the tables of the fence")
	}
	return database.Close()
}

func (e *examiner) examineMemcached(ctx context.Context) error {
	m := e.config.Locking.Memcached
	if m == nil {
		return nil
	}
	locks, err := app.NewLockBackend(e.config, zerolog.Nop())
	if err != nil {
		return err
	}
	defer locks.Close() //nolint:errcheck // no lock depends on these connections
	locks.CheckLocks(ctx)
	for _, health := range locks.Servers() {
		e.examineLockServer(health, m.Strict)
	}
	return nil
}

// examineLockServer adds one check for each setting that should have another value.
func (e *examiner) examineLockServer(h memcached.Health, strict bool) {
	name := "memcached " + h.Server
	if h.State == memcached.StateUnreachable {
		e.add(name, Failed, "start the server, or correct locking.memcached", "%s", h.Error)
		return
	}
	unsafe := Warning
	if strict {
		unsafe = Failed // a replica does not start
	}
	before := len(e.checks)
	for _, s := range h.Settings {
		found := s.Name + " is " + s.Value
		if s.Value == "" {
			found = s.Name + " is not reported"
		}
		switch s.Rating {
		case memcached.Unsafe:
			e.add(name, unsafe, s.Mend, "%s, expected %s: %s", found, s.Want, s.Why)
		case memcached.Advice:
			e.add(name, Warning, s.Mend, "%s, expected %s: %s", found, s.Want, s.Why)
		case memcached.Good:
		}
	}
	if len(e.checks) == before {
		e.ok(name, "version %s answers, and its settings are safe for locks", h.Version)
	}
}
