package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Audit implements storage.Control.
func (s *Store) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	if err := f.Check(); err != nil {
		return nil, wrap("read audit log", err)
	}
	query, args := auditQuery(f)
	var entries []storage.Audited
	err := each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		l, err := scanAudited(rows)
		entries = append(entries, l)
		return err
	})
	return entries, wrap("read audit log", err)
}

// WriteAudit implements storage.AuditWriter.
func (s *Store) WriteAudit(ctx context.Context, by storage.Action, event, target string,
	detail any) error {
	what := "write " + event + " to the audit log"
	if err := by.Check(); err != nil {
		return wrap(what, err)
	}
	return s.write(ctx, what, func(tx *sql.Tx) error {
		d := &actionTx{Tx: tx, now: micros(time.Now()), detail: detail}
		return d.writeDown(ctx, by, event, target, nil)
	})
}

// auditColumns are the columns of an entry, for scanAudited.
const auditColumns = `a.id, a.at, a.actor, a.via, a.proof, a.client, a.request_id, a.replica,
	a.action, a.target, a.reason, a.detail`

// scanAudited reads an entry, after the columns before.
func scanAudited(rows *sql.Rows, before ...any) (storage.Audited, error) {
	var l storage.Audited
	var at int64
	var detail sql.NullString
	err := rows.Scan(append(before, &l.ID, &at, &l.Actor, &l.Via, &l.Proof, &l.Client,
		&l.RequestID, &l.Replica, &l.Action, &l.Target, &l.Reason, &detail)...)
	l.At = fromMicros(at)
	if detail.Valid {
		l.SetDetail([]byte(detail.String))
	}
	return l, err
}

// auditQuery scans an index from its end, or from its beginning, and stops at the limit.
func auditQuery(f storage.AuditFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	query := `SELECT ` + auditColumns + ` FROM holdfast_audit a WHERE true`
	if f.Actor != "" {
		query += " AND actor = " + arg(f.Actor)
	}
	if f.Action != "" {
		query += " AND action = " + arg(f.Action)
	}
	if f.Target != "" {
		query += " AND target = " + arg(f.Target)
	}
	if f.Before != nil {
		query += " AND (at, id) < (" + arg(micros(f.Before.CreatedAt)) + ", " + arg(f.Before.ID) +
			")"
	}
	if f.After != nil {
		query += " AND (at, id) > (" + arg(micros(f.After.CreatedAt)) + ", " + arg(f.After.ID) + ")"
	}
	if !f.Since.IsZero() {
		query += " AND at >= " + arg(micros(f.Since))
	}
	if !f.Until.IsZero() {
		query += " AND at < " + arg(micros(f.Until))
	}
	order := " ORDER BY at DESC, id DESC"
	if f.OldestFirst {
		order = " ORDER BY at, id"
	}
	return query + order + " LIMIT " + arg(storage.PageSize(f.Limit)), args
}
