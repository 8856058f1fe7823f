package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// ErrNoPostgres is the error of a method that needs PostgreSQL.
var ErrNoPostgres = errors.New("the store is not PostgreSQL")

// addTrigger adds the run of a trigger in a transaction, as postgres.Store.TriggerTx does.
type addTrigger func(context.Context, *postgres.Store, storage.Action,
	storage.TriggerRequest) (storage.Triggered, error)

// TriggerTx triggers a job in a transaction of the caller: see postgres.Store.TriggerTx. It returns
// ErrNotOpen before Open, and ErrNoPostgres with SQLite.
func (r *Replica) TriggerTx(ctx context.Context, tx pgx.Tx, a storage.Action,
	request storage.TriggerRequest) (storage.Triggered, error) {
	return r.triggerIn(ctx, a, request, func(ctx context.Context, s *postgres.Store,
		a storage.Action, request storage.TriggerRequest) (storage.Triggered, error) {
		return s.TriggerTx(ctx, tx, a, request)
	})
}

// TriggerSQLTx is TriggerTx in a transaction of database/sql.
func (r *Replica) TriggerSQLTx(ctx context.Context, tx *sql.Tx, a storage.Action,
	request storage.TriggerRequest) (storage.Triggered, error) {
	return r.triggerIn(ctx, a, request, func(ctx context.Context, s *postgres.Store,
		a storage.Action, request storage.TriggerRequest) (storage.Triggered, error) {
		return s.TriggerSQLTx(ctx, tx, a, request)
	})
}

// triggerIn triggers a job by add.
func (r *Replica) triggerIn(ctx context.Context, a storage.Action, request storage.TriggerRequest,
	add addTrigger) (storage.Triggered, error) {
	parts := r.parts.Load()
	switch {
	case parts == nil:
		return storage.Triggered{}, fmt.Errorf("trigger job %s: %w", request.Job, ErrNotOpen)
	case parts.store.Postgres == nil:
		return storage.Triggered{}, fmt.Errorf("trigger job %s: %w", request.Job, ErrNoPostgres)
	}
	return parts.operations.TriggerBy(ctx, a, request, func(ctx context.Context, a storage.Action,
		request storage.TriggerRequest) (storage.Triggered, error) {
		return add(ctx, parts.store.Postgres, a, request)
	})
}
