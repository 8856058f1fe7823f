package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// runByKey finds a key of the actor. It omits skipped runs, which leave their key free.
	runByKey = `
SELECT id FROM holdfast_runs WHERE job = ?1 AND key = ?2 AND key <> '' AND key_actor = ?3
    AND state <> 'skipped' ORDER BY recovery DESC LIMIT 1`

	// firstByKey is runByKey without recoveries, which were created later.
	firstByKey = `
SELECT id FROM holdfast_runs WHERE job = ?1 AND key = ?2 AND key <> '' AND key_actor = ?3
    AND state <> 'skipped' AND recovery = 0`

	lockedByJob = `
SELECT d.resources, d.may_overlap FROM holdfast_jobs j CROSS
    JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version
WHERE j.name = ?1`

	// keepersByFile lists the sessions that keep their waiting runs, according to the file: a
	// command has no sessions in memory.
	keepersByFile = `SELECT id FROM holdfast_sessions WHERE ended_at IS NULL AND expires_at > ?1
		AND NOT stopping`
)

// Trigger implements storage.Actions.
func (s *Store) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	var answer storage.Triggered
	if err := r.Check(); err != nil {
		return answer, wrap("trigger", err)
	}
	r.Key, a.Key = cmp.Or(r.Key, uuid.NewString()), ""
	err := s.action(ctx, a, "trigger", "job "+r.Job, nil, func(d *actionTx) (err error) {
		answer, err = s.triggered(ctx, d, a, r)
		d.unannounced = answer.Adopted()
		return err
	})
	return answer, err
}

// triggered returns the run of the key, and adds it if there is none.
func (s *Store) triggered(ctx context.Context, d *actionTx, a storage.Action,
	r storage.TriggerRequest) (answer storage.Triggered, err error) {
	answer.Record, answer.Created, err = s.runOfTrigger(ctx, d, a, r)
	if err != nil || answer.State != jobs.Waiting || answer.StartsLater(fromMicros(d.now)) {
		return answer, err
	}
	answer.WaitsFor, err = findBlocker(ctx, d, answer.Record)
	if err == nil && answer.Created && answer.WaitsFor != nil && r.AtOnce() {
		err = &storage.BusyError{Job: r.Job, Blocker: *answer.WaitsFor} // nothing is committed
	}
	return answer, err
}

// runOfTrigger returns the run of the key, and whether it was added.
func (s *Store) runOfTrigger(ctx context.Context, d *actionTx, a storage.Action,
	r storage.TriggerRequest) (record storage.Record, created bool, err error) {
	var id uuid.UUID
	err = d.QueryRowContext(ctx, runByKey, r.Job, r.Key, a.Actor).Scan(&id)
	if err == nil {
		d.silent = true
		record, err = triggeredBefore(ctx, d.Tx, id, a, r)
		return record, false, err
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return record, false, err
	}
	if err := requireJob(ctx, d.Tx, r.Job); err != nil {
		return record, false, err
	}
	if !r.EvenPaused {
		if err := refusePaused(ctx, d.Tx, r.Job); err != nil {
			return record, false, err
		}
	}
	adopter, err := s.adopterOf(ctx, d.Tx, r)
	if err != nil {
		return record, false, err
	}
	run := runRow{Run: rules.NewTriggered(a, r, adopter, fromMicros(d.now))}
	if err := execRows(ctx, d.Tx, addRun, []runRow{run}); err != nil {
		return record, false, err
	}
	// It has its position in its job from the beginning, so that no later triggered run overtakes
	// it.
	own, err := locking.Job(r.Job)
	if err != nil {
		return record, false, err
	}
	place := wantRows(run.ID, []locking.Request{{Resource: own, Mode: locking.Exclusive}})
	if err := execRows(ctx, d.Tx, addWant, place); err != nil {
		return record, false, err
	}
	detail := map[string]any{"run": run.ID, "key": r.Key}
	if r.Later() {
		detail["scheduled_at"] = run.ScheduledAt
	}
	d.detail = detail
	return run.Record, true, nil
}

// adopterOf returns the replica of the request's Adopter, or "" if this session cannot adopt runs.
func (s *Store) adopterOf(ctx context.Context, tx *sql.Tx,
	r storage.TriggerRequest) (replica string, err error) {
	session, live := s.sessions.get(r.Adopter)
	if !live || session.replicaStatus.Stopping {
		return "", nil
	}
	held, err := loadHeldBack(ctx, tx, r.Adopter, nil)
	if err != nil || held.draining {
		return "", err
	}
	return session.Replica, nil
}

// findBlocker returns what blocks a waiting run of the job's active definition. If no replica has
// registered the job yet, only its own name is known.
func findBlocker(
	ctx context.Context, d *actionTx, run storage.Record,
) (*storage.RunBlocker, error) {
	definition := storage.Definition{Name: run.Job}
	var resources string
	err := d.QueryRowContext(ctx, lockedByJob, run.Job).Scan(&resources, &definition.MayOverlap)
	if err == nil {
		definition.Resources, err = decodeRequests(resources)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	wants, err := definition.Requests()
	if err != nil {
		return nil, err
	}
	keepers, err := idsBy(ctx, d.Tx, keepersByFile, d.now)
	if err != nil {
		return nil, err
	}
	st, err := loadContenders(ctx, d.Tx, wants, append([]uuid.UUID{}, keepers...), d.now)
	if err != nil {
		return nil, err
	}
	p := st.against(run.ID, fromMicros(micros(run.WaitSince)), wants)
	if p == nil {
		return nil, nil
	}
	blocker := &storage.RunBlocker{Blocker: *p.Blocker(), Reason: p.Reason()}
	if p.Waits() {
		blocker.Root, err = new(starter).root(ctx, d.Tx, p.Run)
	}
	return blocker, err
}

func triggeredBefore(ctx context.Context, tx *sql.Tx, id uuid.UUID, a storage.Action,
	r storage.TriggerRequest) (storage.Record, error) {
	records, err := recordsOf(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return storage.Record{}, err
	}
	first := records
	if records[0].Recovery > 0 {
		ids, err := idsBy(ctx, tx, firstByKey, r.Job, r.Key, a.Actor)
		if err == nil {
			first, err = recordsOf(ctx, tx, ids)
		}
		if err != nil {
			return storage.Record{}, err
		}
	}
	if !storage.SameParams(records[0].Params, r.Params) ||
		len(first) > 0 && !r.SameBegin(first[0]) {
		return storage.Record{}, r.KeyUsed()
	}
	return records[0], nil
}

// refusePaused returns a *storage.PausedError where a pause covers the job.
func refusePaused(ctx context.Context, tx *sql.Tx, job string) error {
	pauses, err := pausesBy(ctx, tx, activePauses)
	if err != nil || len(pauses) == 0 {
		return err
	}
	var group string
	if err := tx.QueryRowContext(ctx, groupOfJob, job).Scan(&group); err != nil {
		return err
	}
	if pause := rules.PauseOver(pauses, job, group); pause != nil {
		return &storage.PausedError{Pause: *pause}
	}
	return nil
}
