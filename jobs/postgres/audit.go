package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Audit returns a page of the audit log.
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
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.Audited, error) {
		var l storage.Audited
		err := row.Scan(&l.ID, &l.At, &l.Actor, &l.Via, &l.Replica, &l.Action, &l.Target, &l.Reason,
			&l.Detail)
		l.At = l.At.UTC()
		return l, err
	})
	return lines, wrap("read audit log", err)
}

// auditQuery scans an index from its end and stops at the limit.
func auditQuery(f storage.AuditFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	query := `SELECT id, at, actor, via, replica, action, target, reason, detail FROM holdfast.audit
		WHERE true`
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
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	return query + fmt.Sprintf(" ORDER BY at DESC, id DESC LIMIT %d",
		min(limit, storage.MaxBatch)), args
}
