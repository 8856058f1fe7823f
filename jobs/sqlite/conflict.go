package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// The descendants of a name are one range of keys: "/" is followed by "0" in byte order.
const (
	nearbyGrants = `
SELECT g.resource, g.mode, g.slots, g.token, r.replica, r.job, r.id
FROM json_each(?1) q CROSS JOIN holdfast_grants g ON g.resource = q.value
JOIN holdfast_claims c ON c.token = g.token JOIN holdfast_runs r ON r.id = c.run
UNION
SELECT g.resource, g.mode, g.slots, g.token, r.replica, r.job, r.id
FROM json_each(?2) q CROSS JOIN holdfast_grants g ON g.resource > q.value || '/'
    AND g.resource < q.value || '0'
JOIN holdfast_claims c ON c.token = g.token JOIN holdfast_runs r ON r.id = c.run`

	nearbyWants = `
SELECT w.resource, w.mode, w.slots, r.wait_since, r.replica, r.job, r.id
FROM json_each(?1) q CROSS JOIN holdfast_wants w ON w.resource = q.value
JOIN holdfast_runs r ON r.id = w.run WHERE r.session IN (SELECT value FROM json_each(?3))
    AND ` + reserved + ` OR ` + ownJobWait + `
UNION
SELECT w.resource, w.mode, w.slots, r.wait_since, r.replica, r.job, r.id
FROM json_each(?2) q CROSS JOIN holdfast_wants w ON w.resource > q.value || '/'
    AND w.resource < q.value || '0'
JOIN holdfast_runs r ON r.id = w.run WHERE r.session IN (SELECT value FROM json_each(?3))
    AND ` + reserved + ` OR ` + ownJobWait + ``
)

// reserved is whether the position of a waiting run is reserved. Positions among the runs of one
// job, and among runs that wait for a slot of their group, always are.
const reserved = `(r.reserved_until > ?4 OR w.resource LIKE 'job:%' OR r.in_turn
    AND w.resource LIKE 'group:%')`

// ownJobWait is whether w is a triggered run's wait for its own job, which lasts until the run
// starts, even without a session.
const ownJobWait = `(r.state = 'waiting' AND r.key <> '' AND r.recovery = 0 AND r.attempt = 0
    AND w.resource LIKE 'job:%')`

// contender is one resource that a claim holds, or that a waiting run of a live session wants in
// its reserved position.
type contender struct {
	locking.Request
	token int64 // 0: it waits
	since int64 // of one that waits
	run   uuid.UUID
	owner locking.Owner
	gone  bool // it waited, and has been granted since
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
	if p.token == 0 {
		st.waiting[p.run] = append(st.waiting[p.run], p)
	}
}

// granted disables the contenders of a waiting run that was granted.
func (st *contenders) granted(run uuid.UUID) {
	for _, p := range st.waiting[run] {
		p.gone = true
	}
}

// loadContenders reads the contenders of the requests. The waiting runs of the live sessions count.
func loadContenders(ctx context.Context, tx *sql.Tx, requests []locking.Request, living []uuid.UUID,
	now int64) (*contenders, error) {
	names, err := encode(lookedAt(requests))
	if err != nil {
		return nil, err
	}
	own, err := encode(ownNames(requests))
	if err != nil {
		return nil, err
	}
	sessions, err := encode(living)
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
	err := rows.Scan(&stored.Resource, &stored.Mode, &stored.Slots, &number, &p.owner.Replica,
		&p.owner.Job, &p.run)
	if err != nil {
		return err
	}
	if granted {
		p.token = number
	} else {
		p.since = number
	}
	p.owner.Run = p.run.String()
	if p.Request, err = stored.request(); err != nil {
		return err
	}
	st.add(p)
	return nil
}

// against returns the blocker of a run that has waited since then, or nil. It prefers a grant to a
// waiter, and an earlier run of the same job to others.
func (st *contenders) against(run uuid.UUID, since int64, requests []locking.Request) *contender {
	var first *contender
	for _, r := range requests {
		first = before(first, st.againstOne(run, since, r))
	}
	return first
}

func (st *contenders) againstOne(run uuid.UUID, since int64, r locking.Request) *contender {
	var first, inSlot *contender
	inSlots := 0
	look := func(parties []*contender) {
		for _, p := range parties {
			switch {
			case r.Mode == locking.Shared && p.Mode == locking.Shared:
				// first, because there may be very many
			case p.gone || p.run == run || p.token == 0 && !older(p, run, since):
			case locking.Conflict(r, p.Request):
				first = before(first, p)
			case r.Mode == locking.Slotted && p.Mode == locking.Slotted && p.Resource == r.Resource:
				inSlots++
				inSlot = before(inSlot, p)
			}
		}
	}
	look(st.exact[r.Resource])
	look(st.beneath[r.Resource])
	for _, above := range r.Resource.Ancestors() {
		look(st.exact[above])
	}
	if r.Mode == locking.Slotted && inSlots >= r.Slots {
		first = before(first, inSlot)
	}
	return first
}

// queued reports whether another run has waited longer for the name of the run's
// job.
func (st *contenders) queued(run uuid.UUID, since int64, requests []locking.Request) bool {
	return slices.ContainsFunc(requests, func(r locking.Request) bool {
		return r.Resource.Kind() == locking.KindJob &&
			slices.ContainsFunc(st.exact[r.Resource], func(p *contender) bool {
				return p.token == 0 && !p.gone && p.run != run && older(p, run, since)
			})
	})
}

// older reports whether p has waited longer than the run.
func older(p *contender, run uuid.UUID, since int64) bool {
	return cmp.Or(cmp.Compare(p.since, since), bytes.Compare(p.run[:], run[:])) < 0
}

// before returns the blocker of the two, either of which may be nil. The choice is the same in
// every try while nothing changes.
func before(a, b *contender) *contender {
	if a == nil || b != nil && compareContenders(b, a) < 0 {
		return b
	}
	return a
}

func compareContenders(a, b *contender) int {
	return cmp.Or(
		yesFirst(a.token != 0, b.token != 0),
		yesFirst(a.Resource.Kind() == locking.KindJob, b.Resource.Kind() == locking.KindJob),
		strings.Compare(a.Resource.Key(), b.Resource.Key()),
		cmp.Compare(a.token, b.token), cmp.Compare(a.since, b.since),
		bytes.Compare(a.run[:], b.run[:]))
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// reason returns the reason of a wait for p.
func (p *contender) reason() jobs.Reason {
	switch {
	case p.token == 0:
		return jobs.ReasonOlderWaiter
	case p.Resource.Kind() == locking.KindJob:
		return jobs.ReasonOverlap
	case p.Resource.Kind() == locking.KindGroup:
		return jobs.ReasonGroupFull
	default:
		return jobs.ReasonLockHeld
	}
}

// blocker returns p as a blocker, with the display form of its resource.
func (p *contender) blocker() *jobs.Blocker {
	return &jobs.Blocker{Resource: p.Resource.String(), Holder: p.owner, Waiting: p.token == 0}
}
