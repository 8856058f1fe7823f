package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Audit implements storage.Control.
func (s *Store) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	if err := f.Check(); err != nil {
		return nil, wrap("read audit log", err)
	}
	query, args := auditQuery(f)
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("read audit log", err)
	}
	entries, err := pgx.CollectRows(rows, scanAudited)
	return entries, wrap("read audit log", err)
}

// WriteAudit implements storage.AuditWriter.
func (s *Store) WriteAudit(ctx context.Context, by storage.Action, event, target string,
	detail any) error {
	what := "write " + event + " to the audit log"
	if err := by.Check(); err != nil {
		return wrap(what, err)
	}
	encoded, err := encodeOrNull(detail)
	if err != nil {
		return wrap(what, err)
	}
	_, err = s.views.Exec(ctx, writeAudit, uuid.New(), by.Actor, by.Via, by.Proof, by.Client,
		by.RequestID, by.Replica, event, target, by.Reason, encoded, "", "", nil)
	return wrap(what, err)
}

// auditColumns are the columns of an entry, for scanAudited.
const auditColumns = `a.id, a.at, a.actor, a.via, a.proof, a.client, a.request_id, a.replica,
	a.action, a.target, a.reason, a.detail`

func scanAudited(row pgx.CollectableRow) (storage.Audited, error) {
	var l storage.Audited
	err := row.Scan(&l.ID, &l.At, &l.Actor, &l.Via, &l.Proof, &l.Client, &l.RequestID,
		&l.Replica, &l.Action, &l.Target, &l.Reason, &l.Detail)
	l.At = l.At.UTC()
	l.SetDetail(l.Detail)
	return l, err
}

// auditQuery scans an index from its end, or from its beginning, and stops at the limit.
func auditQuery(f storage.AuditFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	query := `SELECT ` + auditColumns + ` FROM holdfast.audit a WHERE true`
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
		query += " AND (at, id) < (" + arg(f.Before.CreatedAt) + ", " + arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		query += " AND (at, id) > (" + arg(f.After.CreatedAt) + ", " + arg(f.After.ID) + ")"
	}
	if !f.Since.IsZero() {
		query += " AND at >= " + arg(f.Since)
	}
	if !f.Until.IsZero() {
		query += " AND at < " + arg(f.Until)
	}
	order := " ORDER BY at DESC, id DESC"
	if f.OldestFirst {
		order = " ORDER BY at, id"
	}
	return query + order + fmt.Sprintf(" LIMIT %d", storage.PageSize(f.Limit)), args
}
