package postgres

const (
	// conflicts is the rule by which runs and locks exclude each other. It is part of a statement
	// in which mine (run, since, backfill) lists the runs to decide on. No two of them want related
	// resources. $5 to $10 are the columns of their probes. A run of a backfill has a position
	// behind all others.
	//
	// For each wanted name it reads the name, its ancestors and its descendants ("/" is followed by
	// "0" in byte order). It reads the grants first. For runs that no grant refuses it then reads
	// the wants of older waiters that liveWaiter respects. It reads no further than a refusal
	// needs: a batch may have many runs that want one name, and the first in the index is the
	// oldest.
	//
	// blocked has one row for each run that must wait, with its blocker: a holder before a waiter,
	// and the same blocker while nothing changes.
	conflicts = `
probe AS (
    SELECT p.*, m.since + CASE WHEN m.backfill IS NULL THEN interval '0' ELSE ` + behindAll + ` END
        AS since, coalesce(f.floor, 0) AS floor
    FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::bool[], $10::bool[]) AS p (run,
        name, mode, slots, own, deep)
    JOIN mine m USING (run)
    LEFT JOIN LATERAL (SELECT f.floor FROM holdfast.fences f
        WHERE f.resource = p.name COLLATE "C" OFFSET 0) f ON true
), held AS (
    SELECT p.run, p.mode, p.slots, g.resource, g.token, g.mode AS their_mode,
        p.own AND g.resource = p.name COLLATE "C" AS same
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM (SELECT * FROM holdfast.grants g
            WHERE g.resource = p.name COLLATE "C" AND g.token >= p.floor OFFSET 0) g
        WHERE NOT (p.mode = 'shared' AND g.mode = 'shared')
        LIMIT CASE WHEN p.mode = 'slot' THEN p.slots ELSE 1 END) g
  UNION ALL
    SELECT p.run, p.mode, p.slots, g.resource, g.token, g.mode, false
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT * FROM holdfast.grants g WHERE g.resource > p.name COLLATE "C" || '/'
                AND g.resource < p.name COLLATE "C" || '0' OFFSET 0) g
        WHERE NOT (p.mode = 'shared' AND g.mode = 'shared')
        LIMIT 1) g
    WHERE p.deep
), refusing AS (
    SELECT run, resource, token FROM held WHERE NOT (same AND mode = 'slot' AND their_mode = 'slot')
), wanted AS (
    SELECT p.run, p.mode, p.slots, w.resource, w.run AS waiter, w.since AS waited,
        w.mode AS their_mode, p.own AND w.resource = p.name COLLATE "C" AS same
    FROM probe p CROSS JOIN LATERAL (
        SELECT w.* FROM (
            SELECT * FROM holdfast.wants w WHERE w.resource = p.name COLLATE "C"
                AND w.since > '-infinity' AND (w.since, w.run) < (p.since, p.run)
            ORDER BY w.since, w.run OFFSET 0) w
        CROSS JOIN LATERAL (` + liveWaiter + `) o
        WHERE w.run <> p.run AND NOT (p.mode = 'shared' AND w.mode = 'shared')
        LIMIT CASE WHEN p.mode = 'slot' THEN p.slots ELSE 1 END) w
    WHERE NOT EXISTS (SELECT FROM refusing r WHERE r.run = p.run)
  UNION ALL
    SELECT p.run, p.mode, p.slots, w.resource, w.run, w.since, w.mode, false
    FROM probe p CROSS JOIN LATERAL (
        SELECT w.* FROM (
            SELECT * FROM holdfast.wants w
            WHERE w.resource > p.name COLLATE "C" || '/' AND w.resource < p.name COLLATE "C" || '0'
                AND w.since > '-infinity' AND (w.since, w.run) < (p.since, p.run) OFFSET 0) w
        CROSS JOIN LATERAL (` + liveWaiter + `) o
        WHERE w.run <> p.run AND NOT (p.mode = 'shared' AND w.mode = 'shared')
        LIMIT 1) w
    WHERE p.deep AND NOT EXISTS (SELECT FROM refusing r WHERE r.run = p.run)
), against AS (
    SELECT run, resource, token, NULL::uuid AS waiter, NULL::timestamptz AS waited FROM refusing
  UNION ALL
    SELECT run, resource, NULL, waiter, waited FROM wanted
        WHERE NOT (same AND mode = 'slot' AND their_mode = 'slot')
  UNION ALL
    SELECT run, resource, min(token), (array_agg(waiter ORDER BY waited, waiter))[1], min(waited)
    FROM (
        SELECT run, resource, slots, token, NULL::uuid AS waiter, NULL::timestamptz AS waited
        FROM held WHERE same AND mode = 'slot' AND their_mode = 'slot'
      UNION ALL
        SELECT run, resource, slots, NULL, waiter, waited FROM wanted
            WHERE same AND mode = 'slot' AND their_mode = 'slot') taken
    GROUP BY run, resource, slots HAVING count(*) >= slots
), blocked AS (
    SELECT DISTINCT ON (a.run) a.run, m.since, a.resource, a.token IS NULL AS waiting,
        coalesce(c.run, a.waiter) AS holder_id,
        coalesce(c.granted_at, a.waited) AS holder_since,
        coalesce(c.owner, w.owner, jsonb_build_object('replica', h.replica, 'job', h.job, 'run_id',
            h.id)) AS holder
    FROM against a JOIN mine m USING (run)
    LEFT JOIN LATERAL (SELECT c.run, c.owner, c.granted_at FROM holdfast.claims c
        WHERE c.token = a.token OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT w.owner FROM holdfast.waits w
        WHERE w.run = a.waiter AND a.token IS NULL OFFSET 0) w ON true
    LEFT JOIN LATERAL (SELECT h.replica, h.job, h.id FROM holdfast.runs h
        WHERE h.id = coalesce(c.run, a.waiter) OFFSET 0) h ON true
    ORDER BY a.run, a.token IS NULL, a.resource LIKE 'job:%' DESC, a.resource, a.token, a.waited,
        a.waiter
)`

	// behindAll moves the position of a run of a backfill behind all waiters that are not of one.
	behindAll = `interval '100 years'`

	// liveWaiter returns a row if the waiter w of the want must be respected: a session keeps it,
	// and its position is reserved. Positions among the runs of one job, and among runs that wait
	// for a slot of their group, are always reserved. A triggered run that has not started keeps
	// its position in its job even without a session. It has none before the time for which it was
	// triggered: a run or a lock without a wait counts as younger than all waiters.
	liveWaiter = `
        SELECT FROM holdfast.waits o
        WHERE o.run = w.run AND (o.triggered AND starts_with(w.resource, 'job:')
            AND o.since <= clock_timestamp() OR EXISTS (
            SELECT FROM holdfast.sessions s WHERE s.id = o.session AND s.ended_at IS NULL
                AND s.expires_at > clock_timestamp() AND NOT s.stopping)
            AND (o.reserved_until > clock_timestamp() OR starts_with(w.resource, 'job:')
                OR o.in_turn AND starts_with(w.resource, 'group:')))
        OFFSET 0`

	// reservedUntil is locking.Reserve for a waiter m whose position was reserved until
	// m.reserved_until (NULL: it is new), for m.reserve at a time.
	reservedUntil = `CASE WHEN m.reserve > '0'
		AND (m.reserved_until + 5 * m.reserve <= clock_timestamp()) IS NOT FALSE
        THEN clock_timestamp() + m.reserve ELSE coalesce(m.reserved_until, '-infinity') END`

	// roots continues conflicts, which must be WITH RECURSIVE. root has the holder at the end of
	// the chain for each run whose blocker itself waits. Each link of the chain is the blocker that
	// the waiter received at its last refusal. A chain without a holder at its end, because the
	// holder released its lock meanwhile, has no root. The search stops after eight links, which
	// ends a cycle.
	roots = `
chain (run, next, resource, holder, waiting, depth) AS (
    SELECT b.run, b.holder_id, b.resource, b.holder, true, 1 FROM blocked b WHERE b.waiting
  UNION ALL
    SELECT c.run, coalesce(l.blocker ->> 'id',
        substring(l.blocker -> 'holder' ->> 'run_id'
            FROM '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'))::uuid,
        l.blocker ->> 'resource', l.blocker -> 'holder',
            coalesce((l.blocker ->> 'waiting')::boolean, false), c.depth + 1
    FROM chain c CROSS JOIN LATERAL (
        SELECT coalesce(w.blocker, (SELECT r.blocker FROM holdfast.runs r
            WHERE r.id = c.next)) AS blocker
        FROM holdfast.waits w WHERE w.run = c.next OFFSET 0) l
    WHERE c.waiting AND c.depth < 8 AND l.blocker IS NOT NULL
), root AS (
    SELECT c.run, jsonb_build_object('resource', c.resource, 'holder', c.holder) AS blocker
    FROM chain c CROSS JOIN LATERAL (SELECT FROM holdfast.claims k WHERE k.run = c.next OFFSET 0) k
    WHERE NOT c.waiting
)`

	// storedBlocker is the stored form of the blocker b and of its root.
	storedBlocker = `jsonb_strip_nulls(jsonb_build_object(
    'id', b.holder_id, 'resource', b.resource, 'holder', b.holder,
        'waiting', nullif(b.waiting, false), 'root',
            (SELECT t.blocker FROM root t WHERE t.run = b.run)))`

	// refusalReason is the reason of the wait of b.
	refusalReason = `CASE WHEN b.waiting THEN 'older_waiter' WHEN b.resource LIKE 'job:%'
		THEN 'overlap'
        WHEN b.resource LIKE 'group:%' THEN 'group_full' ELSE 'lock_held' END`

	// raiseFloors continues conflicts: granted has the tokens of the granted runs.
	//
	// A deleted row stays in its index while any transaction of the database may still see it.
	// Beside a long transaction, each look at a busy name would therefore pass all its former
	// holders. So a fence has a floor: no claim with a smaller token holds the name. This works
	// because tokens of one name are drawn, in order, by transactions that have locked its fence. A
	// floor rises once in a thousand tokens, so that the fences do not bloat instead.
	raiseFloors = `
floors AS (
    UPDATE holdfast.fences f SET floor = r.floor
    FROM (
        SELECT p.name, least(min(g.token), min(h.token)) AS floor
        FROM granted g JOIN probe p USING (run)
        LEFT JOIN LATERAL (SELECT h.token FROM holdfast.grants h
            WHERE h.resource = p.name COLLATE "C" AND h.token >= p.floor OFFSET 0) h ON true
        WHERE p.own AND g.token > p.floor + 1000 GROUP BY p.name) r
    WHERE f.resource = ANY(ARRAY(SELECT p.name FROM granted g
        JOIN probe p USING (run) WHERE p.own AND g.token > p.floor + 1000))
        AND f.resource = r.name COLLATE "C" AND f.floor + 1000 < r.floor
)`

	// raiseOwnFloors raises the floors of names whose fences the transaction has locked, as
	// raiseFloors does.
	raiseOwnFloors = `
UPDATE holdfast.fences f SET floor = (` + firstGrant + `)
WHERE f.resource = ANY($1) AND f.floor + 1000 < (` + firstGrant + `)`
	firstGrant = `
    SELECT min(g.token) FROM holdfast.grants g WHERE g.resource = f.resource AND g.token >= f.floor`
)
