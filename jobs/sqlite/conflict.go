package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// The descendants of a name are one range of keys: "/" is followed by "0" in byte order.
const (
	nearbyGrants = `
SELECT g.resource, g.mode, g.slots, g.token, r.replica, r.job, r.id, r.backfill IS NOT NULL
FROM json_each(?1) q CROSS JOIN holdfast_grants g ON g.resource = q.value
JOIN holdfast_claims c ON c.token = g.token JOIN holdfast_runs r ON r.id = c.run
UNION
SELECT g.resource, g.mode, g.slots, g.token, r.replica, r.job, r.id, r.backfill IS NOT NULL
FROM json_each(?2) q CROSS JOIN holdfast_grants g ON g.resource > q.value || '/'
    AND g.resource < q.value || '0'
JOIN holdfast_claims c ON c.token = g.token JOIN holdfast_runs r ON r.id = c.run`

	nearbyWants = `
SELECT w.resource, w.mode, w.slots, r.wait_since, r.replica, r.job, r.id, r.backfill IS NOT NULL
FROM json_each(?1) q CROSS JOIN holdfast_wants w ON w.resource = q.value
JOIN holdfast_runs r ON r.id = w.run WHERE r.session IN (SELECT value FROM json_each(?3))
    AND ` + reserved + ` OR r.wait_since <= ?4 AND ` + ownJobWait + `
UNION
SELECT w.resource, w.mode, w.slots, r.wait_since, r.replica, r.job, r.id, r.backfill IS NOT NULL
FROM json_each(?2) q CROSS JOIN holdfast_wants w ON w.resource > q.value || '/'
    AND w.resource < q.value || '0'
JOIN holdfast_runs r ON r.id = w.run WHERE r.session IN (SELECT value FROM json_each(?3))
    AND ` + reserved + ` OR r.wait_since <= ?4 AND ` + ownJobWait
)

// reserved is whether the position of a waiting run is reserved. Positions among the runs of one
// job, and among runs that wait for a slot of their group, always are.
const reserved = `(r.reserved_until > ?4 OR w.resource LIKE 'job:%' OR r.in_turn
    AND w.resource LIKE 'group:%')`

// ownJobWait is whether w is a triggered run's wait for its own job, which lasts until the run
// starts, even without a session. Other runs wait behind it only from its time on.
const ownJobWait = `(r.state = 'waiting' AND r.key <> '' AND r.backfill IS NULL AND r.recovery = 0
    AND r.attempt = 0 AND w.resource LIKE 'job:%')`

// contender is a contender that may have been granted or withdrawn since it was loaded.
type contender struct {
	rules.Contender
	gone bool // it waited, and no longer contends
}

// contenders are the grants and waiting runs that a start may conflict with, by resource and by
// each ancestor of the resource. They cover only the requests for which they were loaded.
type contenders struct {
	exact   map[locking.Resource][]*contender
	beneath map[locking.Resource][]*contender
	waiting map[uuid.UUID][]*contender
}

func newContenders() *contenders {
	return &contenders{
		exact: map[locking.Resource][]*contender{}, beneath: map[locking.Resource][]*contender{},
		waiting: map[uuid.UUID][]*contender{},
	}
}

func (st *contenders) add(p *contender) {
	st.exact[p.Resource] = append(st.exact[p.Resource], p)
	for _, above := range p.Resource.Ancestors() {
		st.beneath[above] = append(st.beneath[above], p)
	}
	if p.Waits() {
		st.waiting[p.Run] = append(st.waiting[p.Run], p)
	}
}

// granted disables the contenders of a waiting run that was granted.
func (st *contenders) granted(run uuid.UUID) {
	for _, p := range st.waiting[run] {
		p.gone = true
	}
}

// withdrawn disables the contenders of a waiting run that was held back, except its ownJobWait.
func (st *contenders) withdrawn(run rules.Run) {
	triggered := run.Key != "" && run.Backfill == uuid.Nil && run.Recovery == 0 && run.Attempt == 0
	for _, p := range st.waiting[run.ID] {
		p.gone = !triggered || p.Resource.Kind() != locking.KindJob
	}
}

// loadContenders reads the contenders of the requests. The waiting runs of the sessions in keepers
// count.
func loadContenders(ctx context.Context, tx *sql.Tx, requests []locking.Request,
	keepers []uuid.UUID, now int64) (*contenders, error) {
	names, err := encode(lookedAt(requests))
	if err != nil {
		return nil, err
	}
	own, err := encode(ownNames(requests))
	if err != nil {
		return nil, err
	}
	sessions, err := encode(keepers)
	if err != nil {
		return nil, err
	}
	st := newContenders()
	err = each(ctx, tx, nearbyGrants, []any{names, own}, func(rows *sql.Rows) error {
		return st.scan(rows, true)
	})
	if err == nil {
		err = each(ctx, tx, nearbyWants, []any{names, own, sessions, now},
			func(rows *sql.Rows) error { return st.scan(rows, false) })
	}
	return st, err
}

func (st *contenders) scan(rows *sql.Rows, granted bool) error {
	var stored storedRequest
	var number int64
	p := &contender{}
	err := rows.Scan(&stored.Resource, &stored.Mode, &stored.Slots, &number, &p.Owner.Replica,
		&p.Owner.Job, &p.Run, &p.Backfill)
	if err != nil {
		return err
	}
	if granted {
		p.Token = jobs.Token(number)
	} else {
		p.Since = rules.Position(fromMicros(number), p.Backfill)
	}
	p.Owner.Run = p.Run.String()
	if p.Request, err = stored.request(); err != nil {
		return err
	}
	st.add(p)
	return nil
}

// against returns the blocker of a run that has waited since the given time, or nil.
func (st *contenders) against(run uuid.UUID, since time.Time,
	requests []locking.Request) *rules.Contender {
	var first *rules.Contender
	for _, r := range requests {
		first = rules.First(first, st.againstOne(run, since, r))
	}
	return first
}

func (st *contenders) againstOne(run uuid.UUID, since time.Time,
	r locking.Request) *rules.Contender {
	search := rules.Search{Request: r}
	add := func(list []*contender) {
		for _, p := range list {
			if search.Concerns(p.Mode) && st.counts(p, run, since) {
				search.Add(&p.Contender)
			}
		}
	}
	add(st.exact[r.Resource])
	add(st.beneath[r.Resource])
	for _, above := range r.Resource.Ancestors() {
		add(st.exact[above])
	}
	return search.Blocker()
}

// counts reports whether p holds its resource, or has waited for it longer than the run.
func (st *contenders) counts(p *contender, run uuid.UUID, since time.Time) bool {
	return !p.gone && p.Run != run && (!p.Waits() || p.Older(run, since))
}

// queued reports whether another run has waited longer for the name of the run's
// job.
func (st *contenders) queued(run uuid.UUID, since time.Time, requests []locking.Request) bool {
	return slices.ContainsFunc(requests, func(r locking.Request) bool {
		return r.Resource.Kind() == locking.KindJob &&
			slices.ContainsFunc(st.exact[r.Resource], func(p *contender) bool {
				return p.Waits() && st.counts(p, run, since)
			})
	})
}
