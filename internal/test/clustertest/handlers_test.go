package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const ledgerTables = `
CREATE TABLE ledger (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    step     text NOT NULL, -- begin or end
    resource text NOT NULL,
    job      text NOT NULL,
    scheduled_at      timestamptz NOT NULL,
    run      uuid NOT NULL,
    token    bigint NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE gates (name text PRIMARY KEY);
CREATE TABLE outcomes (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job     text NOT NULL,
    token   bigint NOT NULL,
    outcome text NOT NULL
)`

const (
	writeStep = `INSERT INTO ledger (step, resource, job, scheduled_at, run, token) SELECT $1, unnest($2::text[]), $3, $4, $5, $6`
	readGate  = `SELECT EXISTS (SELECT FROM gates WHERE name = $1)`
	writeEnd  = `INSERT INTO outcomes (job, token, outcome) VALUES ($1, $2, $3)`
)

// handlers returns the handlers of the test binary.
func handlers() []jobs.Registration {
	nothing := func(context.Context, *jobs.Run, struct{}) error { return nil }
	return []jobs.Registration{jobs.Handle("ledger", keepLedger), jobs.Handle("nothing", nothing)}
}

// ledgerParams are the params of the handler "ledger": what a run does between its first and last
// rows, and its faults.
type ledgerParams struct {
	Tables []string      `json:"tables"` // it writes rows for each
	Takes  jobs.Duration `json:"takes"`
	Gate   string        `json:"gate"` // waits for this gate, if set, instead of sleeping
	// waits inside a fenced transaction that has written its first row
	Inside bool `json:"inside"`
	Deaf   bool `json:"deaf"`   // ignores the end of its context and writes nevertheless
	Panics bool `json:"panics"` // while the gate "calm" is closed
	// writes the last row and ends in two transactions, so that only the fence protects the row
	Apart bool `json:"apart"`
}

// keepLedger is the handler "ledger". Its rows make the effects of a run visible to tests.
func keepLedger(ctx context.Context, run *jobs.Run, p ledgerParams) error {
	if p.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	store, ok := run.Internal(attempt.NewKey()).Store.(*postgres.Store)
	if !ok {
		return fmt.Errorf("the ledger is kept in PostgreSQL, not in %T",
			run.Internal(attempt.NewKey()).Store)
	}
	l := &ledger{run: run, params: p, pool: store.Pool()}
	err := l.keep(ctx)
	if p.Deaf || p.Inside {
		l.recordOutcome(err)
	}
	return err
}

type ledger struct {
	run    *jobs.Run
	params ledgerParams
	pool   *pgxpool.Pool
}

func (l *ledger) keep(ctx context.Context) error {
	if l.params.Inside {
		return postgres.CompleteInTx(ctx, l.run, func(tx pgx.Tx) error {
			if err := l.write(ctx, tx, "begin"); err != nil {
				return err
			}
			if err := l.wait(ctx); err != nil {
				return err
			}
			return l.write(ctx, tx, "end")
		})
	}
	if err := postgres.InTx(ctx, l.run,
		func(tx pgx.Tx) error { return l.write(ctx, tx, "begin") }); err != nil {
		return err
	}
	if l.params.Panics && !l.open(ctx, "calm") {
		panic("the ledger is on fire")
	}
	if err := l.wait(ctx); err != nil {
		return err
	}
	inTx := postgres.CompleteInTx
	if l.params.Apart {
		inTx = postgres.InTx
	}
	return inTx(ctx, l.run, func(tx pgx.Tx) error { return l.write(ctx, tx, "end") })
}

func (l *ledger) write(ctx context.Context, tx pgx.Tx, step string) error {
	_, err := tx.Exec(ctx, writeStep, step, l.params.Tables, l.run.Job, l.run.ScheduledAt, l.run.ID,
		l.run.Token)
	return err
}

// wait returns when the gate is open or the time has passed.
func (l *ledger) wait(ctx context.Context) error {
	if l.params.Gate == "" {
		return pause(ctx, time.Duration(l.params.Takes))
	}
	for !l.open(ctx, l.params.Gate) {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// open reports whether a gate is known to be open. It returns false while the database is
// unavailable.
func (l *ledger) open(ctx context.Context, gate string) (open bool) {
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := l.pool.QueryRow(bounded, readGate, gate).Scan(&open)
	return err == nil && open
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordOutcome records the outcome of the run's last write, without a fence.
func (l *ledger) recordOutcome(err error) {
	outcome := "committed"
	switch {
	case errors.Is(err, storage.ErrSuperseded):
		outcome = "superseded"
	case err != nil:
		outcome = strings.ToValidUTF8(err.Error(), "?")
	}
	for range 100 { // a sweep may have ended the first connections of the pool
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := l.pool.Exec(ctx, writeEnd, l.run.Job, l.run.Token, outcome)
		cancel()
		if err == nil {
			return
		}
		_ = pause(context.Background(), 50*time.Millisecond)
	}
}
