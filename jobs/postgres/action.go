package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// A client that is paused in the midst of an action must not hold what it has
	// locked for long.
	beginAction = `SELECT set_config('lock_timeout', $1, true),
		set_config('idle_in_transaction_session_timeout', '5s', true)`

	// Of two actions with one key the second sees what the first has done.
	lockKey = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast act ' || $1 || ' ' || $2,
		0))`

	actionByKey = `SELECT action, target, outcome FROM holdfast.audit WHERE key = $1 AND key <> ''`

	writeAudit = `
INSERT INTO holdfast.audit (id, at, actor, via, replica, action, target, reason, detail, key,
    outcome)
VALUES ($1, clock_timestamp(), $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	// Everybody locks meta last, and until the commit that is sent with this.
	raiseControlState = `UPDATE holdfast.meta SET control_version = control_version + 1 WHERE one`

	notify = `SELECT pg_notify($1, $2)`
)

// actionTx is an action while it is done, in a transaction of its own.
type actionTx struct {
	pgx.Tx
	detail       any  // of its line in the audit log
	controlState bool // replicas obey it: what they know of orders is old
	silent       bool // it did nothing, and has no line
	// what is to be sent with the commit, because others wait for what it locks
	last pgx.Batch
}

// action does what an operator asks for, together with its line in the audit log.
// One whose key was used for the same does nothing, and has outcome, a pointer,
// filled in as it was then.
func (s *Store) action(ctx context.Context, a jobs.Action, action, target string, outcome any,
	do func(ctx context.Context, d *actionTx) error) error {
	return wrap(action, s.actionOnce(ctx, a, action, target, outcome, do))
}

func (s *Store) actionOnce(ctx context.Context, a jobs.Action, action, target string, outcome any,
	do func(ctx context.Context, d *actionTx) error) error {
	if err := a.Check(); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer rollback(ctx, conn, tx)
	before, err := s.beginAction(ctx, tx, a.Key)
	if err != nil {
		return err
	}
	if before != nil {
		return before.tell(a.Key, action, target, outcome)
	}
	d := &actionTx{Tx: tx}
	if err := do(ctx, d); err != nil || d.silent {
		return err
	}
	return s.commitAction(ctx, d, a, action, target, outcome)
}

// formerAction is what was done with a key.
type formerAction struct {
	action, target string
	outcome        []byte
}

// tell fills in the outcome of an action that was done before.
func (f *formerAction) tell(key, action, target string, outcome any) error {
	if f.action != action || f.target != target {
		return fmt.Errorf("the key %q was used to %s %s: %w", key, f.action, f.target,
			jobs.ErrConflict)
	}
	if outcome == nil {
		return nil
	}
	return json.Unmarshal(f.outcome, outcome)
}

// beginAction returns what was done with the key before, if anything was.
func (s *Store) beginAction(ctx context.Context, tx pgx.Tx,
	key string) (before *formerAction, err error) {
	b := &pgx.Batch{}
	b.Queue(beginAction, s.lockTimeout)
	if key != "" {
		b.Queue(lockKey, s.cluster.String(), key)
		b.Queue(actionByKey, key).Query(func(rows pgx.Rows) error {
			var f formerAction
			_, err := pgx.ForEachRow(rows, []any{&f.action, &f.target, &f.outcome}, func() error {
				before = &f
				return nil
			})
			return err
		})
	}
	return before, tx.SendBatch(ctx, b).Close()
}

// commitAction writes the action down and commits, in one round trip.
func (s *Store) commitAction(ctx context.Context, d *actionTx, a jobs.Action, action, target string,
	outcome any) error {
	detail, err := encodeOrNull(d.detail)
	if err != nil {
		return err
	}
	told, err := encodeOrNull(outcome)
	if err != nil {
		return err
	}
	b := &d.last
	b.Queue(writeAudit, uuid.New(), a.Actor, a.Via, a.Replica, action, target, a.Reason, detail,
		a.Key, told)
	if d.controlState {
		b.Queue(raiseControlState)
	}
	b.Queue(notify, s.channel(), action)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	return d.SendBatch(ctx, b).Close()
}

func encodeOrNull(v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(v)
	text := string(encoded)
	return &text, err
}

// byWhom says who did something, and why, for the detail of a run.
func byWhom(what string, a jobs.Action) string {
	if a.Reason == "" {
		return what + " by " + a.Actor
	}
	return what + " by " + a.Actor + ": " + a.Reason
}
