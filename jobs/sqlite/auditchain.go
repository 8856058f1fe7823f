package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	hasUnsealed = `SELECT EXISTS (SELECT 1 FROM holdfast_audit_unsealed)`

	chainPosition = `SELECT seq, hash FROM holdfast_audit_chain`

	// dropLinked removes entries that have a link from the beginning of the queue. No replica
	// queues such an entry. Somebody who can write the file can, and a second link would fail.
	dropLinked = `
DELETE FROM holdfast_audit_unsealed WHERE entry IN (
    SELECT entry FROM (SELECT entry FROM holdfast_audit_unsealed ORDER BY at, entry LIMIT ?1) u
    WHERE EXISTS (SELECT 1 FROM holdfast_audit_links l WHERE l.entry = u.entry))`

	unsealedEntries = `SELECT ` + auditColumns + `
FROM holdfast_audit_unsealed u CROSS JOIN holdfast_audit a ON a.id = u.entry
WHERE NOT EXISTS (SELECT 1 FROM holdfast_audit_links l WHERE l.entry = u.entry)
ORDER BY u.at, u.entry LIMIT ?1`

	addLink    = `INSERT INTO holdfast_audit_links (seq, entry, at, hash) VALUES (?1, ?2, ?3, ?4)`
	dropSealed = `DELETE FROM holdfast_audit_unsealed WHERE entry = ?1`
	moveHead   = `UPDATE holdfast_audit_chain SET seq = ?1, hash = ?2`

	chainState = `
SELECT anchor_seq, anchor_hash, seq, hash,
    (SELECT l.at FROM holdfast_audit_links l WHERE l.seq = c.seq),
    (SELECT count(*) FROM holdfast_audit_unsealed),
    (SELECT min(at) FROM holdfast_audit_unsealed),
    (SELECT entry FROM holdfast_audit_unsealed u
        WHERE NOT EXISTS (SELECT 1 FROM holdfast_audit a WHERE a.id = u.entry)
        ORDER BY at, entry LIMIT 1),
    (SELECT id FROM holdfast_audit a
        WHERE NOT EXISTS (SELECT 1 FROM holdfast_audit_links l WHERE l.entry = a.id)
            AND NOT EXISTS (SELECT 1 FROM holdfast_audit_unsealed u WHERE u.entry = a.id)
        ORDER BY at, id LIMIT 1)
FROM holdfast_audit_chain c`

	oldestUnsealed = `SELECT min(at) FROM holdfast_audit_unsealed`

	auditLinks = `
SELECT l.seq, l.entry, l.at, l.hash, a.id IS NOT NULL, l.entry, coalesce(a.at, l.at),
    coalesce(a.actor, ''), coalesce(a.via, ''), coalesce(a.proof, ''), coalesce(a.client, ''),
    coalesce(a.request_id, ''), coalesce(a.replica, ''), coalesce(a.action, ''),
    coalesce(a.target, ''), coalesce(a.reason, ''), a.detail
FROM holdfast_audit_links l LEFT JOIN holdfast_audit a ON a.id = l.entry
WHERE l.seq > ?1 ORDER BY l.seq LIMIT ?2`
)

// SealAudit implements storage.AuditChain.
func (s *Store) SealAudit(ctx context.Context, limit int) (sealed int, err error) {
	var some bool
	if err := s.readers.QueryRowContext(ctx, hasUnsealed).Scan(&some); err != nil || !some {
		return 0, wrap("read unsealed audit log", err)
	}
	err = s.write(ctx, "seal audit log", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, dropLinked, limit); err != nil {
			return err
		}
		var head storage.ChainHead
		err := tx.QueryRowContext(ctx, chainPosition).Scan(&head.Seq, hashInto{&head.Hash})
		if err != nil {
			return err
		}
		var entries []storage.Audited
		err = each(ctx, tx, unsealedEntries, []any{limit}, func(rows *sql.Rows) error {
			l, err := scanAudited(rows)
			entries = append(entries, l)
			return err
		})
		if err != nil || len(entries) == 0 {
			return err
		}
		links := storage.SealAll(head, entries)
		sealed = len(links)
		return writeLinks(ctx, tx, links)
	})
	if err != nil {
		return 0, err
	}
	return sealed, nil
}

// writeLinks adds links, at least one, and moves the head to the last.
func writeLinks(ctx context.Context, tx *sql.Tx, links []storage.AuditLink) error {
	for _, l := range links {
		_, err := tx.ExecContext(ctx, addLink, l.Seq, l.ID, micros(l.At), l.Hash[:])
		if err == nil {
			_, err = tx.ExecContext(ctx, dropSealed, l.ID)
		}
		if err != nil {
			return err
		}
	}
	last := links[len(links)-1]
	_, err := tx.ExecContext(ctx, moveHead, last.Seq, last.Hash[:])
	return err
}

// UnsealedAge implements storage.AuditChain.
func (s *Store) UnsealedAge(ctx context.Context) (time.Duration, error) {
	var at sql.NullInt64
	err := s.readers.QueryRowContext(ctx, oldestUnsealed).Scan(&at)
	if err != nil || !at.Valid {
		return 0, wrap("read unsealed audit log", err)
	}
	return max(0, time.Since(fromMicros(at.Int64))), nil
}

// AuditChain implements storage.AuditChain.
func (s *Store) AuditChain(ctx context.Context) (storage.ChainState, error) {
	c := storage.ChainState{Now: time.Now()}
	var headAt, oldest sql.NullInt64
	var missing, stray uuid.NullUUID
	err := s.readers.QueryRowContext(ctx, chainState).Scan(&c.Anchor.Seq,
		hashInto{&c.Anchor.Hash}, &c.Head.Seq, hashInto{&c.Head.Hash}, &headAt,
		&c.Unsealed, &oldest, &missing, &stray)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("read head of audit log: %w", storage.ErrNotFound)
	}
	c.HeadAt, c.OldestUnsealed = fromNullMicros(headAt), fromNullMicros(oldest)
	if missing.Valid {
		c.Missing = &missing.UUID
	}
	if stray.Valid {
		c.Stray = &stray.UUID
	}
	return c, wrap("read head of audit log", err)
}

// AuditLinks implements storage.AuditChain.
func (s *Store) AuditLinks(ctx context.Context, after int64,
	limit int) ([]storage.AuditLink, error) {
	var links []storage.AuditLink
	err := each(ctx, s.readers, auditLinks, []any{after, limit}, func(rows *sql.Rows) error {
		var l storage.AuditLink
		var at int64
		var found bool
		e, err := scanAudited(rows, &l.Seq, &l.ID, &at, hashInto{&l.Hash}, &found)
		l.At = fromMicros(at)
		if found {
			l.Entry = &e
		}
		links = append(links, l)
		return err
	})
	return links, wrap("read links of audit log", err)
}

// hashInto scans a hash. Bytes of another length, which no replica writes, leave zeros.
type hashInto struct{ hash *storage.AuditHash }

// Scan implements sql.Scanner.
func (h hashInto) Scan(value any) error {
	*h.hash = storage.AuditHash{}
	if bytes, ok := value.([]byte); ok && len(bytes) == len(h.hash) {
		copy(h.hash[:], bytes)
	}
	return nil
}
