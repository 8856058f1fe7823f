package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

//go:embed warehouse.sql
var createTables string

// phase is one measurement: a fresh database, the load, and the jobs beside it.
type phase struct {
	name     string // what people read
	database string
	table    string // the replicas' configuration
	lasts    time.Duration
}

// result is what a phase measured.
type result struct {
	transactions  int64 // that pgbench committed
	before, after counters
	settled       bool
	outcomes      outcomes
	audits        audits
	totals        []total
}

// field is what phases run on.
type field struct {
	*servers
	options
	load pgbench
	out  io.Writer
}

// run measures the phase from an empty database to the last comparison.
func (f field) run(ctx context.Context, p phase) (_ result, err error) {
	var r result
	db, err := f.prepare(ctx, p)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	if r.before, err = readCounters(ctx, db, f.postgres.LogPath()); err != nil {
		return r, err
	}
	if err := f.drive(ctx, p, db, &r); err != nil {
		return r, err
	}
	if err := waitAlone(ctx, db); err != nil {
		return r, err
	}
	if r.after, err = readCounters(ctx, db, f.postgres.LogPath()); err != nil {
		return r, err
	}
	if r.audits, err = readAudits(ctx, db); err != nil {
		return r, err
	}
	r.totals, err = readTotals(ctx, db, r.transactions)
	return r, err
}

// url is a database's, for this program's own connections.
func (f field) url(database string) string {
	return f.postgres.URL(database) + "&application_name=warehouse"
}

// prepare makes the phase's database with its tables and connects to it.
func (f field) prepare(ctx context.Context, p phase) (*pgx.Conn, error) {
	if err := f.postgres.CreateDatabase(ctx, p.database, "template0"); err != nil {
		return nil, err
	}
	if err := f.load.initialise(ctx, f.postgres.URL(p.database), f.scale); err != nil {
		return nil, err
	}
	db, err := pgx.Connect(ctx, f.url(p.database))
	if err != nil {
		return nil, fmt.Errorf("connection: %w", err)
	}
	if _, err := db.Exec(ctx, createTables); err != nil {
		return nil, errors.Join(fmt.Errorf("tables of the warehouse: %w", err), db.Close(ctx))
	}
	return db, nil
}

// drive runs replicas and load, waits for the jobs to catch up, and stops the
// replicas. It leaves in r what the history says.
func (f field) drive(ctx context.Context, p phase, db *pgx.Conn, r *result) (err error) {
	members, err := startCluster(ctx, replicas.Spec{
		Program: f.program, Config: p.table, Dir: f.dir,
		Env: []string{"DATABASE_URL=" + f.postgres.URL(p.database),
			"MEMCACHED=" + f.memcached.Addr()},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.kill()) }()
	fmt.Fprintf(f.out, "%s: three replicas run the jobs, pgbench writes for %s. To watch: %s\n",
		p.name, p.lasts, members[0].URL)
	if r.transactions, err = f.load.load(ctx, f.postgres.URL(p.database), f.clients,
		p.lasts); err != nil {
		return err
	}
	history, err := postgres.Open(ctx, postgres.Options{URL: f.url(p.database), Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer history.Close()
	return f.finish(ctx, db, history, members, r)
}

func (f field) finish(ctx context.Context, db *pgx.Conn, history storage.History, members cluster,
	r *result) error {
	fmt.Fprintln(f.out, "  pgbench has ended, the jobs catch up")
	err := settle(ctx, db, history)
	if r.settled = err == nil; err != nil && !errors.Is(err, errNotSettled) {
		return err
	}
	if err := members.stop(ctx); err != nil {
		return err
	}
	r.outcomes, err = readOutcomes(ctx, history)
	return err
}
