package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	lastToken = `SELECT last_token FROM holdfast_meta`
	saveToken = `UPDATE holdfast_meta SET last_token = ?1 WHERE last_token < ?1`

	addClaim = `INSERT INTO holdfast_claims (token, run, session, granted_at)
		VALUES (?1, ?2, ?3, ?4)`

	addGrant = `INSERT INTO holdfast_grants (resource, mode, slots, token) VALUES (?1, ?2, ?3, ?4)`
)

type claimRow struct {
	token        int64
	run, session uuid.UUID
	granted      int64
}

func (r claimRow) values() []any { return []any{r.token, r.run, r.session, r.granted} }

// starter decides on a batch of starts, each with knowledge of the earlier ones, and collects the
// rows to write.
type starter struct {
	session    liveSession
	live       bool
	now        int64
	token      int64 // the last one drawn
	ledger     *ledger
	contenders *contenders
	held       *heldBack

	runs   []runRow
	claims []claimRow
	grants []grantRow
	wants  []wantRow
	ended  []uuid.UUID // that want nothing any more
}

// Start decides on each request in one transaction.
func (s *Store) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if err := s.exclusively("start"); err != nil {
		return nil, err
	}
	results := make([]storage.StartResult, len(requests))
	if len(requests) == 0 {
		return results, nil
	}
	err := s.write(ctx, "start", func(tx *sql.Tx) error {
		st, err := s.newStarter(ctx, tx, session, requests)
		if err != nil {
			return err
		}
		for i, r := range requests {
			if results[i], err = st.decide(ctx, tx, r); err != nil {
				return err
			}
		}
		return st.save(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (s *Store) newStarter(ctx context.Context, tx *sql.Tx, session uuid.UUID,
	requests []storage.StartRequest) (*starter, error) {
	ids, firings, names := make([]uuid.UUID, len(requests)), make([]firing, len(requests)),
		make([]string, len(requests))
	var wanted []locking.Request
	for i, r := range requests {
		ids[i], firings[i], names[i] = r.Run, firingOf(r.Firing), r.Firing.Job
		wanted = append(wanted, r.Requests...)
	}
	st := &starter{now: micros(time.Now())}
	st.session, st.live = s.sessions.get(session)
	st.session.ID = session
	var err error
	if st.ledger, err = loadLedger(ctx, tx, ids, firings); err != nil {
		return nil, err
	}
	if st.contenders, err = loadContenders(ctx, tx, wanted, s.sessions.living(),
		st.now); err != nil {
		return nil, err
	}
	if st.held, err = loadHeldBack(ctx, tx, session, names); err != nil {
		return nil, err
	}
	return st, tx.QueryRowContext(ctx, lastToken).Scan(&st.token)
}

func (st *starter) decide(ctx context.Context, tx *sql.Tx,
	r storage.StartRequest) (storage.StartResult, error) {
	known := st.ledger.known[r.Run]
	if known != nil && known.Session == nil && known.State == jobs.Waiting &&
		known.Replica == st.session.Replica {
		known.Session = &st.session.ID // it was held back, and no session has adopted it
	}
	mine := known != nil && known.Session != nil && *known.Session == st.session.ID
	switch {
	case mine && known.claimed: // a resent request, whose reply was lost
		return storage.StartResult{Outcome: storage.StartGranted,
			Token: jobs.Token(*known.Token)}, nil
	case !st.live:
		return storage.StartResult{Outcome: storage.StartNotLive}, nil
	case mine && known.State == jobs.Waiting && st.held.firstAttempt(r):
		st.holdBack(*known)
		return storage.StartResult{Outcome: storage.StartPaused}, nil
	case mine && known.State == jobs.Waiting:
		return st.admit(ctx, tx, *known, r)
	case known != nil:
		return storage.StartResult{Outcome: storage.StartDuplicate}, nil
	case st.ledger.stale(r.Firing.Job, r.Version):
		return storage.StartResult{Outcome: storage.StartStale}, nil
	case st.ledger.taken[firingOf(r.Firing)]:
		return storage.StartResult{Outcome: storage.StartDuplicate}, nil
	case st.held.firstAttempt(r):
		return storage.StartResult{Outcome: storage.StartPaused}, nil
	}
	st.ledger.taken[firingOf(r.Firing)] = true
	run := newRun(r.Run, r.Firing, st.now)
	run.Session, run.Replica = &st.session.ID, st.session.Replica
	return st.admit(ctx, tx, run, r)
}

// admit grants the run its requests, or leaves it waiting.
func (st *starter) admit(ctx context.Context, tx *sql.Tx, run runRow,
	r storage.StartRequest) (storage.StartResult, error) {
	since := micros(r.WaitSince)
	if run.Since != nil {
		since = *run.Since
	}
	var result storage.StartResult
	var err error
	if p := st.contenders.against(run.ID, fromMicros(since), r.Requests); p != nil {
		result = storage.StartResult{Outcome: storage.StartBlocked, Blocker: p.Blocker(),
			Reason: p.Reason()}
		if p.Waits() {
			if result.Blocker.Root, err = st.root(ctx, tx, p.Run); err != nil {
				return result, err
			}
		}
		result.Reserved = run.reserve(r.Reserve, st.now)
		run.InTurn = p.Resource.Kind() == locking.KindGroup
		result.Queued = st.contenders.queued(run.ID, fromMicros(since), r.Requests)
		err = run.setBlocker(result.Blocker, since, st.now)
		run.Since, run.Reason, run.Detail = &since, result.Reason, ""
		st.wait(run, r.Requests, result.Reserved > 0)
	} else {
		err = errors.Join(run.keepWait(since), run.endRest(st.now))
		result = storage.StartResult{Outcome: storage.StartGranted,
			Token: st.grant(&run, r.Requests)}
		run.Attempt = r.Attempt
	}
	st.runs = append(st.runs, run)
	return result, err
}

// holdBack leaves a waiting run for another session to adopt. No run waits behind it.
func (st *starter) holdBack(run runRow) {
	if pause, paused := st.held.pause(run.Job); paused {
		run.Reason, run.Blocker = reasons.Paused, nil
		run.Detail = fmt.Sprintf("%s is paused by %s", pause.Target, pause.By)
	}
	run.Session = nil
	st.contenders.granted(run.ID)
	st.runs, st.ended = append(st.runs, run), append(st.ended, run.ID)
}

func (st *starter) wait(run runRow, requests []locking.Request, reserved bool) {
	st.wants = append(st.wants, wantRows(run.ID, requests)...)
	for _, r := range requests {
		kind := r.Resource.Kind()
		if !reserved && kind != locking.KindJob && (kind != locking.KindGroup || !run.InTurn) {
			continue
		}
		st.contenders.add(&contender{Contender: rules.Contender{Request: r,
			Since: fromMicros(*run.Since), Run: run.ID, Owner: st.owner(run)}})
	}
}

func (st *starter) grant(run *runRow, requests []locking.Request) jobs.Token {
	st.token++
	token := st.token
	st.contenders.granted(run.ID)
	for _, r := range requests {
		st.grants = append(st.grants, grantRow{storeRequest(r), token})
		st.contenders.add(&contender{Contender: rules.Contender{Request: r,
			Token: jobs.Token(token), Run: run.ID, Owner: st.owner(*run)}})
	}
	st.claims = append(st.claims,
		claimRow{token: token, run: run.ID, session: st.session.ID, granted: st.now})
	st.ended = append(st.ended, run.ID)
	run.State, run.Token, run.Since, run.Blocker, run.Reason, run.Detail = jobs.Running, &token,
		nil, nil, "", ""
	run.ReservedUntil, run.InTurn = 0, false
	if run.Started == nil {
		run.Started = &st.now
	}
	return jobs.Token(token)
}

func (st *starter) owner(run runRow) locking.Owner {
	return locking.Owner{Replica: run.Replica, Job: run.Job, Run: run.ID.String()}
}

func (st *starter) save(ctx context.Context, tx *sql.Tx) error {
	if len(st.runs) == 0 {
		return nil
	}
	if err := execRows(ctx, tx, saveRun, st.runs); err != nil {
		return err
	}
	if err := execRows(ctx, tx, addWant, st.wants); err != nil {
		return err
	}
	if err := execBatch(ctx, tx, endWants, st.ended); err != nil {
		return err
	}
	if len(st.claims) == 0 {
		return nil
	}
	if err := execRows(ctx, tx, addClaim, st.claims); err != nil {
		return err
	}
	if err := execRows(ctx, tx, addGrant, st.grants); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, saveToken, st.token)
	return err
}
