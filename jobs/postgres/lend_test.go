package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// lender lends migrated databases to the subtests of one test, one after the other. On a disk,
// emptying a database takes less than a tenth of the processor time of creating and dropping one.
type lender struct {
	t *testing.T // whose end drops the databases
	// through returns the URL that stores use for a database; nil: its own
	through func(url string) string

	mu   sync.Mutex
	free []*lent
}

// lent is a database with what stays open for the next subtest.
type lent struct {
	url   string
	conn  *pgx.Conn
	reset string // statements that make all tables as they were when the database was created

	mu     sync.Mutex
	stores map[string][]*Store // free ones, by application name
}

func newLender(t *testing.T) *lender {
	t.Helper()
	if server == nil { // a subtest cannot skip t
		t.Skip("needs PostgreSQL: run without -short")
	}
	return &lender{t: t}
}

// lend returns an empty database until the end of the subtest.
func (l *lender) lend(t *testing.T) *lent {
	t.Helper()
	d := l.take()
	if d == nil {
		d = l.create(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // the test may have changed anything
		}
		if err := d.empty(); err != nil {
			t.Errorf("empty the database for the next test: %v", err)
			return
		}
		l.mu.Lock()
		l.free = append(l.free, d)
		l.mu.Unlock()
	})
	return d
}

func (l *lender) take() *lent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return nil
	}
	d := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	return d
}

func (l *lender) create(t *testing.T) *lent {
	t.Helper()
	d := &lent{url: database(l.t), stores: map[string][]*Store{}}
	var err error
	if d.conn, err = pgx.Connect(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	l.t.Cleanup(func() { d.conn.Close(context.Background()) })
	// An ANALYZE of emptied tables would make the planner's estimate of the runs much too small.
	if _, err = d.conn.Exec(t.Context(),
		"ALTER TABLE holdfast.runs SET (autovacuum_enabled = off)"); err != nil {
		t.Fatal(err)
	}
	// The role turns off triggers and foreign keys.
	d.reset = "BEGIN; SET LOCAL session_replication_role = replica;" +
		d.text(t, `SELECT string_agg(format('DELETE FROM %s;', oid::regclass), '') FROM pg_class
			WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'`) +
		d.text(t, `SELECT string_agg(format('ALTER SEQUENCE %s RESTART;', oid::regclass), '')
			FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'S'`)
	// with a row of their own
	for _, table := range []string{"holdfast.meta", "holdfast.audit_chain"} {
		d.reset += d.text(t,
			fmt.Sprintf(`SELECT format('INSERT INTO %[1]s SELECT (json_populate_record(
			null::%[1]s, %%L)).*;', row_to_json(r)) FROM %[1]s r`, table))
	}
	d.reset += "COMMIT"
	return d
}

// text returns the result of a query.
func (d *lent) text(t *testing.T, query string) (result string) {
	t.Helper()
	if err := d.conn.QueryRow(t.Context(), query).Scan(&result); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return result
}

// store returns an open store of the database until the end of the subtest.
func (d *lent) store(l *lender, t *testing.T, name string) *Store {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var s *Store
	if free := d.stores[name]; len(free) > 0 {
		s, d.stores[name] = free[len(free)-1], free[:len(free)-1]
	} else {
		url := d.url
		if l.through != nil {
			url = l.through(url)
		}
		s = openAs(l.t, url, name)
	}
	t.Cleanup(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stores[name] = append(d.stores[name], s)
	})
	return s
}

// emptyLimit bounds how long a backend may take to end.
const emptyLimit = 30 * time.Second

// empty makes the database as it was when it was created.
func (d *lent) empty() error {
	ctx, cancel := context.WithTimeout(context.Background(), emptyLimit)
	defer cancel()
	if err := d.quiet(ctx); err != nil {
		return err
	}
	_, err := d.conn.Exec(ctx, d.reset, pgx.QueryExecModeSimpleProtocol)
	return err
}

// quiet ends the backends that still execute something, of calls whose caller did not wait for the
// answer, so that nothing is written later.
func (d *lent) quiet(ctx context.Context) error {
	for {
		var busy int
		err := d.conn.QueryRow(ctx, `SELECT count(*) FROM (
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()
				AND backend_type = 'client backend' AND state <> 'idle') b`).Scan(&busy)
		if err != nil {
			return fmt.Errorf("end busy backends: %w", err)
		}
		if busy == 0 {
			return nil
		}
	}
}
