package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Audit returns a page of the audit log.
func (s *Store) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	if err := f.Check(); err != nil {
		return nil, wrap("read audit log", err)
	}
	query, args := auditQuery(f)
	var lines []storage.Audited
	err := each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var l storage.Audited
		var at int64
		var detail sql.NullString
		err := rows.Scan(&l.ID, &at, &l.Actor, &l.Via, &l.Replica, &l.Action, &l.Target, &l.Reason,
			&detail)
		l.At = fromMicros(at)
		if detail.Valid {
			l.Detail = []byte(detail.String)
		}
		lines = append(lines, l)
		return err
	})
	return lines, wrap("read audit log", err)
}

// auditQuery scans an index from its end and stops at the limit.
func auditQuery(f storage.AuditFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	query := `SELECT id, at, actor, via, replica, action, target, reason, detail FROM holdfast_audit
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
		query += " AND (at, id) < (" + arg(micros(f.Before.CreatedAt)) + ", " + arg(f.Before.ID) +
			")"
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	return query + " ORDER BY at DESC, id DESC LIMIT " + arg(min(limit, storage.MaxBatch)), args
}
