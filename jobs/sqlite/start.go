package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
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
	now        time.Time
	token      int64 // the last one drawn
	ledger     *ledger
	contenders *contenders
	held       *heldBack

	runs   []runRow
	claims []claimRow
	grants []grantRow
	wants  []wantRow
	ended  []uuid.UUID // that want nothing any more
	left   []uuid.UUID // held back
}

// Start implements storage.Firings.
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
	st := &starter{now: rules.Whole(time.Now())}
	st.session, st.live = s.sessions.get(session)
	st.session.ID = session
	var err error
	if st.ledger, err = loadLedger(ctx, tx, ids, firings); err != nil {
		return nil, err
	}
	if st.contenders, err = loadContenders(ctx, tx, wanted, s.sessions.keeperIDs(),
		micros(st.now)); err != nil {
		return nil, err
	}
	if st.held, err = loadHeldBack(ctx, tx, session, names); err != nil {
		return nil, err
	}
	return st, tx.QueryRowContext(ctx, lastToken).Scan(&st.token)
}

func (st *starter) decide(ctx context.Context, tx *sql.Tx,
	r storage.StartRequest) (storage.StartResult, error) {
	known, unique := st.ledger.known[r.Run], firingOf(r.Firing)
	facts := rules.Start{Session: st.session.ID, Replica: st.session.Replica, Live: st.live,
		Drains: st.held.draining, Pause: st.held.pause(r.Firing.Job),
		Stale: st.ledger.stale(r.Firing.Job, r.Version), Taken: st.ledger.taken[unique]}
	if known != nil {
		facts.Known, facts.Claimed = &known.Run, known.claimed
	}
	outcome, decided := facts.Outcome(r)
	switch {
	case !decided && known != nil:
		return st.admit(ctx, tx, known.Run, r)
	case !decided:
		st.ledger.taken[unique] = true
		return st.admit(ctx, tx, rules.NewRun(r.Run, r.Firing, st.now), r)
	case outcome == storage.StartGranted:
		return storage.StartResult{Outcome: outcome, Token: known.Token}, nil
	case outcome == storage.StartPaused && known != nil:
		st.holdBack(known.Run, facts.Pause)
	}
	return storage.StartResult{Outcome: outcome}, nil
}

// admit grants the run its requests, or leaves it waiting.
func (st *starter) admit(ctx context.Context, tx *sql.Tx, run rules.Run,
	r storage.StartRequest) (result storage.StartResult, err error) {
	run.Session, run.Replica = st.session.ID, st.session.Replica
	since := run.Position(run.Since(r.WaitSince))
	if p := st.contenders.against(run.ID, since, r.Requests); p != nil {
		blocker := *p.Blocker()
		if p.Waits() {
			if blocker.Root, err = st.root(ctx, tx, p.Run); err != nil {
				return result, err
			}
		}
		result = run.Refuse(p, blocker, r, st.now)
		result.Queued = st.contenders.queued(run.ID, since, r.Requests)
		st.wait(run, r.Requests)
	} else {
		st.token++
		result = run.Grant(jobs.Token(st.token), r, st.now)
		st.grant(run, r.Requests)
	}
	st.runs = append(st.runs, runRow{Run: run})
	return result, nil
}

// holdBack leaves a waiting run for another session to adopt. No run waits behind it, except later
// runs of the job behind a triggered run.
func (st *starter) holdBack(run rules.Run, pause *storage.Pause) {
	run.HoldBack(pause)
	st.contenders.withdrawn(run)
	st.runs, st.left = append(st.runs, runRow{Run: run}), append(st.left, run.ID)
}

func (st *starter) wait(run rules.Run, requests []locking.Request) {
	st.wants = append(st.wants, wantRows(run.ID, requests)...)
	for _, r := range requests {
		if run.Reserves(r.Resource.Kind(), st.now) {
			st.contenders.add(&contender{Contender: run.Contender(r, 0)})
		}
	}
}

func (st *starter) grant(run rules.Run, requests []locking.Request) {
	st.contenders.granted(run.ID)
	for _, r := range requests {
		st.grants = append(st.grants, grantRow{storeRequest(r), st.token})
		st.contenders.add(&contender{Contender: run.Contender(r, run.Token)})
	}
	st.claims = append(st.claims, claimRow{token: st.token, run: run.ID, session: st.session.ID,
		granted: micros(st.now)})
	st.ended = append(st.ended, run.ID)
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
	if err := execBatch(ctx, tx, withdrawWants, st.left); err != nil {
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
