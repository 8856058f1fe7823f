package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// beginAction is sent with the simple protocol, in one round trip. The second timeout releases
	// the locks of an action whose client is paused in the middle.
	beginAction = `BEGIN; SET LOCAL lock_timeout = '%s';
		SET LOCAL idle_in_transaction_session_timeout = '5s'`

	// The second of two actions with one key waits here, and then reads the result of the first.
	lockKey = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast action ' || $1 || ' ' || $2
		|| ' ' || $3, 0))`

	actionByKey = `SELECT action, target, request, outcome FROM holdfast.audit
		WHERE key = $1 AND key <> '' AND actor = $2`

	writeAudit = `
WITH entry AS (
    INSERT INTO holdfast.audit (id, at, actor, via, proof, client, request_id, replica, action,
        target, reason, detail, key, request, outcome)
    VALUES ($1, clock_timestamp(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    RETURNING id, at
)
INSERT INTO holdfast.audit_unsealed (entry, at) SELECT id, at FROM entry`

	// Every transaction locks meta last, and sends this together with its commit.
	raiseControlState = `UPDATE holdfast.meta SET control_version = control_version + 1 WHERE one`

	notify = `SELECT pg_notify($1, $2)`
)

// actionTx is the transaction of one action.
type actionTx struct {
	pgx.Tx
	detail       any  // of its entry in the audit log
	controlState bool // it changes the control state of replicas
	silent       bool // it did nothing, and has no entry
	unannounced  bool // it concerns no other replica
	// of the triggered job, as far as it decides what a run locks
	definition storage.Definition
	// statements to send with the commit, because other transactions wait for the rows they lock
	last pgx.Batch
}

// action performs an operator's action and writes its entry of the audit log in one transaction. If
// the key was used for the same action before, action does nothing but fill in outcome, a pointer,
// with the former result.
func (s *Store) action(ctx context.Context, a storage.Action, action, target string, outcome any,
	do func(ctx context.Context, d *actionTx) error) error {
	return wrap(action, s.actionOnce(ctx, a, action, target, outcome, do))
}

func (s *Store) actionOnce(ctx context.Context, a storage.Action, action, target string,
	outcome any,
	do func(ctx context.Context, d *actionTx) error) error {
	if err := a.Check(); err != nil {
		return err
	}
	conn, release, err := s.pool.lease(ctx)
	if err != nil {
		return err
	}
	defer release()
	begun, err := conn.BeginTx(ctx,
		pgx.TxOptions{BeginQuery: fmt.Sprintf(beginAction, s.lockTimeout)})
	if err != nil {
		return err
	}
	defer rollback(ctx, conn, begun)
	tx := schemaTx{begun, s.schema}
	before, err := s.formerAction(ctx, tx, a)
	if err != nil {
		return err
	}
	if before != nil {
		return before.fillIn(a, action, target, outcome)
	}
	d := &actionTx{Tx: tx}
	if err := do(ctx, d); err != nil || d.silent {
		return err
	}
	return s.commitAction(ctx, d, a, action, target, outcome)
}

// formerAction is an earlier action with the same key.
type formerAction struct {
	action, target, request string
	outcome                 []byte
}

// fillIn decodes the outcome of the earlier action. It returns storage.ErrKeyUsed if that was
// another request.
func (f *formerAction) fillIn(a storage.Action, action, target string, outcome any) error {
	err := a.CheckKey(action, target, f.action, f.target, f.request)
	if err != nil || outcome == nil {
		return err
	}
	return json.Unmarshal(f.outcome, outcome)
}

// formerAction returns the earlier action of the actor with the key, or nil.
func (s *Store) formerAction(ctx context.Context, tx pgx.Tx,
	a storage.Action) (before *formerAction, err error) {
	if a.Key == "" {
		return nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(lockKey, s.cluster.String(), a.Actor, a.Key)
	b.Queue(actionByKey, a.Key, a.Actor).Query(func(rows pgx.Rows) error {
		var f formerAction
		_, err := pgx.ForEachRow(rows, []any{&f.action, &f.target, &f.request, &f.outcome},
			func() error {
				before = &f
				return nil
			})
		return err
	})
	err = tx.SendBatch(ctx, b).Close()
	return before, err
}

// commitAction writes the entry of the audit log and commits, in one round trip.
func (s *Store) commitAction(ctx context.Context, d *actionTx, a storage.Action, action,
	target string,
	outcome any) error {
	if err := s.queueAudit(d, a, action, target, outcome); err != nil {
		return err
	}
	committed := queueCommit(&d.last)
	if !d.unannounced {
		s.queueNotify(&d.last, action)
	}
	return s.beforeCommit(d.SendBatch(ctx, &d.last).Close(), committed)
}

// queueCommit adds the commit of a transaction that b or an earlier request has begun. It returns
// whether the transaction has committed, for use after the batch.
func queueCommit(b *pgx.Batch) (committed *bool) {
	committed = new(bool)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if *committed = tag.String() == "COMMIT"; !*committed {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	return committed
}

// beforeCommit returns the error of a batch that notifies after its commit, unless it has
// committed. Without a notification, replicas find the change when they next poll.
func (s *Store) beforeCommit(err error, committed *bool) error {
	if err != nil && *committed {
		s.log.Debug().Err(err).Msg("replicas could not be notified")
		return nil
	}
	return err
}

// queueNotify adds the notification of the action. From its commit until the disk has written that,
// a transaction that notifies has a lock of the whole server. So the notification should be a
// transaction of its own, which writes nothing.
func (s *Store) queueNotify(b *pgx.Batch, action string) {
	b.Queue(notify, s.channel(), action)
}

// queueAudit adds the entry of the audit log to what d sends last.
func (s *Store) queueAudit(d *actionTx, a storage.Action, action, target string,
	outcome any) error {
	detail, err := encodeOrNull(d.detail)
	if err != nil {
		return err
	}
	encoded, err := encodeOrNull(outcome)
	if err != nil {
		return err
	}
	d.last.Queue(writeAudit, uuid.New(), a.Actor, a.Via, a.Proof, a.Client, a.RequestID, a.Replica,
		action, target, a.Reason, detail, a.Key, a.Request(), encoded)
	if d.controlState {
		d.last.Queue(raiseControlState)
	}
	return nil
}

func encodeOrNull(v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(v)
	text := string(encoded)
	return &text, err
}
