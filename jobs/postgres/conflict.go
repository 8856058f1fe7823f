package postgres

const (
	// conflicts is the rule by which runs and locks exclude each other: part of
	// a statement in which mine (run, since) has those to be decided on, of
	// which no two want related resources, and $5 to $10 are the columns of
	// their probes. It looks at each wanted name, at its ancestors, and at what
	// lies beneath it ("/" is followed by "0" in byte order), among what is
	// granted and among what those want who have waited longer in living
	// sessions. blocked has a row for each that must wait, and names one in its
	// way: a holder rather than a waiter, and the same while nothing changes.
	conflicts = `
probe AS (
    SELECT p.*, m.since, coalesce(f.floor, 0) AS floor
    FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::bool[], $10::bool[]) AS p (run, name, mode, slots, own, deep)
    JOIN mine m USING (run)
    LEFT JOIN LATERAL (SELECT f.floor FROM holdfast.fences f WHERE f.resource = p.name COLLATE "C" OFFSET 0) f ON true
), met AS (
    SELECT p.run, p.mode, p.slots, p.own, g.resource, g.mode AS their_mode, g.token, NULL::uuid AS waiter,
        NULL::timestamptz AS waited, g.resource = p.name COLLATE "C" AS same
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM holdfast.grants g WHERE g.resource = p.name COLLATE "C" AND g.token >= p.floor OFFSET 0) g
  UNION ALL
    SELECT p.run, p.mode, p.slots, false, g.resource, g.mode, g.token, NULL, NULL, false
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM holdfast.grants g WHERE g.resource > p.name COLLATE "C" || '/' AND g.resource < p.name COLLATE "C" || '0' OFFSET 0) g
    WHERE p.deep
  UNION ALL
    SELECT p.run, p.mode, p.slots, p.own, w.resource, w.mode, NULL, w.run, o.since, w.resource = p.name COLLATE "C"
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM holdfast.wants w WHERE w.resource = p.name COLLATE "C" AND w.run <> p.run OFFSET 0) w
    CROSS JOIN LATERAL (` + olderWaiter + `) o
  UNION ALL
    SELECT p.run, p.mode, p.slots, false, w.resource, w.mode, NULL, w.run, o.since, false
    FROM probe p CROSS JOIN LATERAL (
        SELECT * FROM holdfast.wants w
        WHERE w.resource > p.name COLLATE "C" || '/' AND w.resource < p.name COLLATE "C" || '0' AND w.run <> p.run OFFSET 0) w
    CROSS JOIN LATERAL (` + olderWaiter + `) o
    WHERE p.deep
), against AS (
    SELECT run, resource, token, waiter, waited FROM met
    WHERE NOT (mode = 'shared' AND their_mode = 'shared') AND NOT (own AND same AND mode = 'slot' AND their_mode = 'slot')
  UNION ALL
    SELECT run, resource, min(token), (array_agg(waiter ORDER BY waited, waiter))[1], min(waited) FROM met
    WHERE own AND same AND mode = 'slot' AND their_mode = 'slot'
    GROUP BY run, resource, slots HAVING count(*) >= slots
), blocked AS (
    SELECT DISTINCT ON (a.run) a.run, m.since, a.resource, a.token IS NULL AS waiting, coalesce(c.run, a.waiter) AS holder_id,
        coalesce(c.granted_at, a.waited) AS holder_since,
        coalesce(c.owner, w.owner, jsonb_build_object('replica', h.replica, 'job', h.job, 'run_id', h.id)) AS holder
    FROM against a JOIN mine m USING (run)
    LEFT JOIN LATERAL (SELECT c.run, c.owner, c.granted_at FROM holdfast.claims c WHERE c.token = a.token OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT w.owner FROM holdfast.waits w WHERE w.run = a.waiter AND a.token IS NULL OFFSET 0) w ON true
    LEFT JOIN LATERAL (SELECT h.replica, h.job, h.id FROM holdfast.runs h WHERE h.id = coalesce(c.run, a.waiter) OFFSET 0) h ON true
    ORDER BY a.run, a.token IS NULL, a.resource LIKE 'job:%' DESC, a.resource, a.token, a.waited, a.waiter
)`

	// raiseFloors is part of a statement that goes on from conflicts: granted
	// has the tokens of those whom it lets pass. What is deleted stays in an
	// index for as long as a transaction of the database may still see it, and
	// beside a long one each look at a busy name would pass all who have held it
	// since. So a fence knows a token below which nobody has the name any more:
	// tokens of one name are drawn by whoever has locked its fence, in their
	// order. A floor is raised once in a thousand tokens, so that the fences do
	// not bloat instead.
	raiseFloors = `
floors AS (
    UPDATE holdfast.fences f SET floor = r.floor
    FROM (
        SELECT p.name, least(min(g.token), min(m.token)) AS floor
        FROM granted g JOIN probe p USING (run) LEFT JOIN met m ON m.run = p.run AND m.own AND m.same AND m.resource = p.name COLLATE "C"
        WHERE p.own GROUP BY p.name, p.floor
        HAVING least(min(g.token), min(m.token)) > p.floor + 1000) r
    WHERE f.resource = ANY(ARRAY(SELECT p.name FROM probe p WHERE p.own AND EXISTS (SELECT FROM granted g WHERE g.run = p.run)))
        AND f.resource = r.name COLLATE "C" AND f.floor < r.floor
)`

	// olderWaiter has a row when w belongs to a waiter of a living session
	// that has waited longer than p: since when.
	olderWaiter = `
        SELECT o.since FROM holdfast.waits o
        WHERE o.run = w.run AND (o.since, o.run) < (p.since, p.run) AND EXISTS (
            SELECT FROM holdfast.sessions s WHERE s.id = o.session AND s.ended_at IS NULL AND s.expires_at > clock_timestamp())
        OFFSET 0`
)
