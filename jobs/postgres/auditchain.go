package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	chainPosition = `SELECT seq, hash, pruned FROM holdfast.audit_chain WHERE one`

	// linkedEntries finds entries at the beginning of the queue that have a link. No replica queues
	// such an entry. Somebody who may add rows to the queue can.
	linkedEntries = `
SELECT entry FROM (
    SELECT entry FROM holdfast.audit_unsealed WHERE at > '-infinity' ORDER BY at, entry LIMIT $1
) u WHERE (SELECT true FROM holdfast.audit_links l WHERE l.entry = u.entry LIMIT 1)`

	// dropLinked removes them from the queue. It runs after lockChain.
	dropLinked = `
DELETE FROM holdfast.audit_unsealed u WHERE entry = ANY($1::uuid[])
    AND (SELECT true FROM holdfast.audit_links l WHERE l.entry = u.entry LIMIT 1)`

	// The order makes PostgreSQL look up each entry by its time and id. An entry with a link is
	// left out, because a second link would fail with all others.
	unsealedEntries = `
SELECT ` + auditColumns + ` FROM (
    SELECT entry, at FROM holdfast.audit_unsealed WHERE at > '-infinity' ORDER BY at, entry
) u CROSS JOIN LATERAL (
    SELECT * FROM holdfast.audit WHERE (at, id) >= (u.at, u.entry) ORDER BY at, id LIMIT 1
) a WHERE a.id = u.entry
    AND (SELECT true FROM holdfast.audit_links l WHERE l.entry = u.entry LIMIT 1) IS NULL
ORDER BY u.at, u.entry LIMIT $1`

	// addLinks adds links unless another replica has sealed or pruned since chainPosition. So the
	// chain is locked for one statement, and not while the replica computes hashes.
	addLinks = `
WITH head AS (
    UPDATE holdfast.audit_chain SET seq = seq + cardinality($3::uuid[]), hash = $6
    WHERE one AND seq = $1 AND pruned = $2 RETURNING true AS moved
), unqueued AS (
    DELETE FROM holdfast.audit_unsealed WHERE entry = ANY(ARRAY(
        SELECT entry FROM unnest($3::uuid[]) AS n (entry) WHERE (SELECT moved FROM head)))
)
INSERT INTO holdfast.audit_links (seq, entry, at, hash)
SELECT $1 + n, entry, at, hash
FROM unnest($3::uuid[], $4::timestamptz[], $5::bytea[]) WITH ORDINALITY AS l (entry, at, hash, n)
WHERE (SELECT moved FROM head)`

	// lockChain makes a replica that has read unsealed entries fail to add their links: pruneAudit,
	// which follows, may delete these entries.
	lockChain = `SELECT FROM holdfast.audit_chain WHERE one FOR NO KEY UPDATE`

	chainState = `
SELECT clock_timestamp(), anchor_seq, anchor_hash, seq, hash,
    (SELECT l.at FROM holdfast.audit_links l WHERE l.seq = c.seq),
    (SELECT count(*) FROM holdfast.audit_unsealed),
    (SELECT min(at) FROM holdfast.audit_unsealed),
    (SELECT entry FROM holdfast.audit_unsealed u
        WHERE NOT EXISTS (SELECT FROM holdfast.audit a WHERE a.id = u.entry)
        ORDER BY at, entry LIMIT 1),
    (SELECT id FROM holdfast.audit a
        WHERE NOT EXISTS (SELECT FROM holdfast.audit_links l WHERE l.entry = a.id)
            AND NOT EXISTS (SELECT FROM holdfast.audit_unsealed u WHERE u.entry = a.id)
        ORDER BY at, id LIMIT 1)
FROM holdfast.audit_chain c WHERE one`

	unsealedAge = `
SELECT greatest(extract(epoch FROM clock_timestamp() - min(at)), 0)::float8
FROM holdfast.audit_unsealed`

	auditLinks = `
SELECT l.seq, l.entry, l.at, l.hash, a.id IS NOT NULL, l.entry, coalesce(a.at, l.at),
    coalesce(a.actor, ''), coalesce(a.via, ''), coalesce(a.proof, ''), coalesce(a.client, ''),
    coalesce(a.request_id, ''), coalesce(a.replica, ''), coalesce(a.action, ''),
    coalesce(a.target, ''), coalesce(a.reason, ''), a.detail
FROM holdfast.audit_links l LEFT JOIN holdfast.audit a ON a.id = l.entry
WHERE l.seq > $1 ORDER BY l.seq LIMIT $2`
)

// SealAudit implements storage.AuditChain.
func (s *Store) SealAudit(ctx context.Context, limit int) (sealed int, err error) {
	var head storage.ChainHead
	var pruned int64
	var entries []storage.Audited
	var linked []rawID
	err = s.pipeline(ctx, "read unsealed audit log", func(b *pgx.Batch) {
		b.Queue(chainPosition).QueryRow(func(row pgx.Row) error {
			return row.Scan(&head.Seq, hashInto{&head.Hash}, &pruned)
		})
		b.Queue(unsealedEntries, limit).Query(func(rows pgx.Rows) (err error) {
			entries, err = pgx.CollectRows(rows, scanAudited)
			return err
		})
		b.Queue(linkedEntries, limit).Query(func(rows pgx.Rows) (err error) {
			linked, err = pgx.CollectRows(rows, pgx.RowTo[rawID])
			return err
		})
	})
	if err == nil && len(linked) > 0 {
		err = s.pipeline(ctx, "clean queue of audit log", func(b *pgx.Batch) {
			b.Queue(lockChain)
			b.Queue(dropLinked, linked)
		})
	}
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	return s.addLinksAfter(ctx, storage.SealAll(head, entries), head.Seq, pruned)
}

// addLinksAfter adds links, at least one, unless another replica has sealed or pruned since the
// chain had the position.
func (s *Store) addLinksAfter(ctx context.Context, links []storage.AuditLink, head,
	pruned int64) (sealed int, err error) {
	ids, times := make([]rawID, len(links)), make([]time.Time, len(links))
	hashes := make([][]byte, len(links))
	for i, l := range links {
		ids[i], times[i], hashes[i] = rawID(l.ID), l.At, l.Hash[:]
	}
	err = s.pipeline(ctx, "seal audit log", func(b *pgx.Batch) {
		b.Queue(addLinks, head, pruned, ids, times, hashes, hashes[len(hashes)-1]).
			Exec(func(tag pgconn.CommandTag) error {
				sealed = int(tag.RowsAffected())
				return nil
			})
	})
	return sealed, err
}

// UnsealedAge implements storage.AuditChain.
func (s *Store) UnsealedAge(ctx context.Context) (time.Duration, error) {
	var seconds float64
	err := s.pipeline(ctx, "read unsealed audit log", func(b *pgx.Batch) {
		b.Queue(unsealedAge).QueryRow(func(row pgx.Row) error { return row.Scan(&seconds) })
	})
	return time.Duration(seconds * float64(time.Second)), err
}

// AuditChain implements storage.AuditChain.
func (s *Store) AuditChain(ctx context.Context) (storage.ChainState, error) {
	var c storage.ChainState
	err := s.pool.QueryRow(ctx, chainState, pgx.QueryExecModeCacheDescribe).Scan(&c.Now,
		&c.Anchor.Seq, hashInto{&c.Anchor.Hash}, &c.Head.Seq, hashInto{&c.Head.Hash}, &c.HeadAt,
		&c.Unsealed, &c.OldestUnsealed, &c.Missing, &c.Stray)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, fmt.Errorf("read head of audit log: %w", storage.ErrNotFound)
	}
	return c, wrap("read head of audit log", err)
}

// AuditLinks implements storage.AuditChain.
func (s *Store) AuditLinks(ctx context.Context, after int64,
	limit int) ([]storage.AuditLink, error) {
	rows, err := s.pool.Query(ctx, auditLinks, pgx.QueryExecModeCacheDescribe, after, limit)
	if err != nil {
		return nil, wrap("read links of audit log", err)
	}
	links, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.AuditLink, error) {
		var l storage.AuditLink
		var e storage.Audited
		var found bool
		err := row.Scan(&l.Seq, &l.ID, &l.At, hashInto{&l.Hash}, &found, &e.ID, &e.At, &e.Actor,
			&e.Via, &e.Proof, &e.Client, &e.RequestID, &e.Replica, &e.Action, &e.Target, &e.Reason,
			&e.Detail)
		e.SetDetail(e.Detail)
		if found {
			l.Entry = &e
		}
		return l, err
	})
	return links, wrap("read links of audit log", err)
}

// hashInto scans a hash. Bytes of another length, which no replica writes, leave zeros.
type hashInto struct{ hash *storage.AuditHash }

// ScanBytes implements pgtype.BytesScanner.
func (h hashInto) ScanBytes(value []byte) error {
	*h.hash = storage.AuditHash{}
	if len(value) == len(h.hash) {
		copy(h.hash[:], value)
	}
	return nil
}
