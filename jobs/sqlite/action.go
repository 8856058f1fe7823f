package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	actionByKey = `SELECT action, target, request, outcome FROM holdfast_audit
		WHERE key = ?1 AND key <> '' AND actor = ?2`

	writeAudit = `
INSERT INTO holdfast_audit (id, at, actor, via, proof, client, request_id, replica, action, target,
    reason, detail, key, request, outcome)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

	queueSeal = `INSERT INTO holdfast_audit_unsealed (entry, at) VALUES (?1, ?2)`

	raiseControlState = `UPDATE holdfast_meta SET control_version = control_version + 1`
)

// actionTx is the transaction of one action.
type actionTx struct {
	*sql.Tx
	now          int64
	detail       any  // of its entry in the audit log
	controlState bool // it changes the control state of replicas
	silent       bool // it did nothing, and has no entry
	unannounced  bool // it concerns no other replica
}

// action performs an operator's action and writes its entry of the audit log in one transaction. If
// the key was used for the same action before, action does nothing but fill in outcome, a pointer,
// with the former result.
func (s *Store) action(ctx context.Context, a storage.Action, action, target string, outcome any,
	do func(d *actionTx) error) error {
	return s.actionBy(ctx, s.write, a, action, target, outcome, do)
}

// actionBy is action with the given function for writing.
func (s *Store) actionBy(ctx context.Context, write writeFunc, a storage.Action,
	action, target string, outcome any, do func(d *actionTx) error) error {
	if err := a.Check(); err != nil {
		return wrap(action, err)
	}
	var d *actionTx
	err := write(ctx, action, func(tx *sql.Tx) error {
		d = &actionTx{Tx: tx, now: micros(time.Now())}
		done, err := actionDone(ctx, tx, a, action, target, outcome)
		if err != nil || done {
			return err
		}
		if err := do(d); err != nil || d.silent {
			return err
		}
		return d.writeDown(ctx, a, action, target, outcome)
	})
	if err == nil && !d.unannounced {
		s.listeners.notify()
	}
	return err
}

// actionDone reports whether the actor did the action with the key before. Then it fills in the
// outcome of that action, unless outcome is nil.
func actionDone(ctx context.Context, from queryer, a storage.Action, action, target string,
	outcome any) (bool, error) {
	var didAction, didTarget, request string
	var stored sql.NullString
	err := from.QueryRowContext(ctx, actionByKey, a.Key, a.Actor).
		Scan(&didAction, &didTarget, &request, &stored)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = a.CheckKey(action, target, didAction, didTarget, request)
	}
	if err == nil && outcome != nil {
		err = json.Unmarshal([]byte(stored.String), outcome)
	}
	return err == nil, err
}

func (d *actionTx) writeDown(ctx context.Context, a storage.Action, action, target string,
	outcome any) error {
	detail, err := encodeOrNull(d.detail)
	if err != nil {
		return err
	}
	encoded, err := encodeOrNull(outcome)
	if err != nil {
		return err
	}
	id := uuid.New()
	_, err = d.ExecContext(ctx, writeAudit, id, d.now, a.Actor, a.Via, a.Proof, a.Client,
		a.RequestID, a.Replica, action, target, a.Reason, detail, a.Key, a.Request(), encoded)
	if err == nil {
		_, err = d.ExecContext(ctx, queueSeal, id, d.now)
	}
	if err == nil && d.controlState {
		_, err = d.ExecContext(ctx, raiseControlState)
	}
	return err
}

func encodeOrNull(v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	text, err := encode(v)
	return &text, err
}

// changed runs a statement and reports whether it changed a row.
func changed(ctx context.Context, tx *sql.Tx, statement string, args ...any) (bool, error) {
	done, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}
