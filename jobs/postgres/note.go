package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// recordNew inserts new firings as ended runs: one row each, which is never updated. It leaves
	// out a firing that another run has, that this run has already, or whose job has another active
	// definition. It returns the ids of the inserted runs. Before it inserts a run, it locks the
	// session as holdSession does.
	recordNew = `
WITH alive AS MATERIALIZED (
    SELECT s.id, s.replica, clock_timestamp() AS now FROM holdfast.sessions s
    WHERE s.id = $1 AND s.ended_at IS NULL AND s.expires_at > clock_timestamp() FOR KEY SHARE
), changed AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, recovery, state, batched, session, replica,
        created_at, finished_at, reason, detail, error, blocker, blocked_at)
    SELECT n.run, n.job, n.scheduled_at, n.recovery, n.state, true, a.id, a.replica,
        a.now, a.now, n.reason, n.detail, n.error, n.blocker, n.since
    FROM unnest($3::uuid[], $2::text[], $4::timestamptz[], $5::int[], $6::bigint[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::jsonb[], $12::timestamptz[]) WITH ORDINALITY
        AS n (run, job, scheduled_at, recovery, version, state, reason, detail, error, blocker,
        since, place)
    CROSS JOIN alive a
    WHERE (SELECT n.version > 0 AND j.version <> n.version FROM holdfast.jobs j
        WHERE j.name = n.job COLLATE "C") IS NOT TRUE
    ORDER BY n.job COLLATE "C", n.scheduled_at, n.recovery, n.place
    ON CONFLICT DO NOTHING
    RETURNING id, job, state, created_at, scheduled_at, started_at, finished_at, backfill, blocker,
        blocked_at
), waited AS (
    INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until)
    SELECT id, job, coalesce(blocker -> 'holder' ->> 'job', ''),
        coalesce(blocker ->> 'resource', ''), state, least(blocked_at, finished_at), finished_at
    FROM changed WHERE blocker IS NOT NULL
)` + noteEnded + `
SELECT id FROM changed`

	// applyNotes treats a session that has expired since insertRuns as admit does. Other replicas
	// may adopt the waiting runs of a draining session.
	applyNotes = `
WITH alive AS MATERIALIZED (` + sessionLives + `
), noted AS (
    SELECT n.*, r.attempt, r.backfill
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::jsonb[], $8::timestamptz[], $13::interval[])
        AS n (run, state, reason, detail, error, blocker, since, reserve)
    CROSS JOIN LATERAL (SELECT r.attempt, r.backfill FROM holdfast.runs r
        WHERE r.id = n.run AND r.session = $1 AND r.state = 'waiting' OFFSET 0) r
    WHERE EXISTS (SELECT FROM alive)
), stranded AS (
    INSERT INTO holdfast.waits (run, session, since)
    SELECT n.run, $1, n.since FROM unnest($2::uuid[], $8::timestamptz[]) AS n (run, since)
    CROSS JOIN LATERAL (SELECT FROM holdfast.runs r
        WHERE r.id = n.run AND r.session = $1 AND r.state = 'waiting' OFFSET 0) r
    WHERE NOT EXISTS (SELECT FROM alive)
    ON CONFLICT (run) DO NOTHING
), new_waits AS (
    INSERT INTO holdfast.waits (run, session, since, reserved_until)
    SELECT run, CASE WHEN attempt > 1 OR NOT (
        SELECT draining FROM holdfast.sessions WHERE id = $1) THEN $1::uuid END, since,
        CASE WHEN reserve > '0' THEN clock_timestamp() + reserve ELSE '-infinity' END
    FROM noted WHERE state = 'waiting'
    ON CONFLICT (run) DO NOTHING
), new_wants AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots)
    SELECT w.resource, coalesce(o.since, n.since) + CASE WHEN n.backfill IS NULL THEN interval '0'
        ELSE ` + behindAll + ` END, w.run, w.mode, w.slots
    FROM unnest($9::uuid[], $10::text[], $11::text[], $12::int[]) AS w (run, resource, mode, slots)
    JOIN noted n USING (run)
    LEFT JOIN LATERAL (SELECT o.since FROM holdfast.waits o WHERE o.run = w.run OFFSET 0) o ON true
    WHERE n.state = 'waiting'
    ON CONFLICT DO NOTHING
), ended_waits AS (
    DELETE FROM holdfast.waits w
        WHERE w.run = ANY(ARRAY(SELECT run FROM noted WHERE state <> 'waiting'))
), ended_wants AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM noted))
        AND (w.run, w.resource) NOT IN (
        SELECT k.run, k.resource FROM unnest($9::uuid[], $10::text[]) AS k (run, resource)
            JOIN noted n USING (run) WHERE n.state = 'waiting')
        AND NOT ((SELECT n.state FROM noted n WHERE n.run = w.run) = 'waiting'
            AND ` + ownJobWait + `)
), changed AS (
    UPDATE holdfast.runs r SET state = n.state, reason = n.reason, detail = n.detail,
        blocker = n.blocker, batched = n.state <> 'waiting',
        blocked_at = CASE WHEN r.blocker -> 'holder' = n.blocker -> 'holder' THEN r.blocked_at
            WHEN r.reason = '' THEN n.since ELSE clock_timestamp() END,
        error = CASE WHEN n.error = '' THEN r.error ELSE n.error END,
        finished_at = CASE WHEN n.state <> 'waiting' THEN clock_timestamp() END
    FROM noted n WHERE r.id = ANY($2) AND r.id = n.run
    RETURNING r.id, r.job, r.state, r.created_at, r.scheduled_at, r.started_at, r.backfill
)` + noteEnded + `
SELECT`

	noteOutcomes = `
SELECT q.run, EXISTS (` + sessionLives + `), coalesce(r.session = $1 AND r.state = q.state, false)
FROM unnest($2::uuid[], $3::text[]) AS q (run, state)
LEFT JOIN LATERAL (SELECT r.session, r.state FROM holdfast.runs r
    WHERE r.id = q.run OFFSET 0) r ON true`
)

// Note implements storage.Firings.
func (s *Store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	stands := make([]bool, len(notes))
	fresh, others := splitNotes(notes)
	if len(fresh) > 0 {
		left, err := s.recordNew(ctx, session, notes, fresh, stands)
		if err != nil {
			return nil, err
		}
		others = append(others, left...)
		slices.Sort(others)
	}
	if len(others) > 0 {
		if err := s.applyNotes(ctx, session, notes, others, stands); err != nil {
			return nil, err
		}
	}
	return stands, nil
}

// splitNotes returns the indexes of the notes for recordNew, in the order in which replicas insert
// runs, and those of the others.
func splitNotes(notes []storage.Note) (fresh, others []int) {
	for i, n := range notes {
		if n.New && n.State.Final() && n.Firing.Key == "" {
			fresh = append(fresh, i)
		} else {
			others = append(others, i)
		}
	}
	slices.SortStableFunc(fresh, func(a, b int) int {
		return firingOrder(notes[a].Firing, notes[b].Firing)
	})
	return fresh, others
}

// recordNew sets stands for the notes at the indexes that recordNew has written, and returns the
// indexes of the others.
func (s *Store) recordNew(ctx context.Context, session uuid.UUID, notes []storage.Note,
	indexes []int, stands []bool) (left []int, err error) {
	columns, err := newNoteColumns(notes, indexes)
	if err != nil {
		return nil, err
	}
	place := make(map[uuid.UUID]int, len(indexes))
	for _, i := range indexes {
		place[notes[i].Run] = i
	}
	err = s.pipelineByHash(ctx, "note", func(b *pgx.Batch) {
		b.Queue(recordNew, append([]any{session}, columns...)...).Query(func(rows pgx.Rows) error {
			var run uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{&run}, func() error {
				stands[place[run]] = true
				return nil
			})
			return err
		})
	})
	for _, i := range indexes {
		if !stands[i] {
			left = append(left, i)
		}
	}
	return left, err
}

func newNoteColumns(notes []storage.Note, indexes []int) ([]any, error) {
	n := len(indexes)
	names, runs, scheduledTimes := make([]string, n), make([]rawID, n), make([]time.Time, n)
	recoveries, versions, states := make([]int, n), make([]int64, n), make([]string, n)
	reasons, details, errors := make([]string, n), make([]string, n), make([]string, n)
	blockers, sinces := make([]*string, n), make([]time.Time, n)
	for i, index := range indexes {
		note := notes[index]
		names[i], runs[i], scheduledTimes[i] = note.Firing.Job, note.Run, note.Firing.ScheduledAt
		recoveries[i], versions[i], states[i] = note.Firing.Recovery, note.Version,
			string(note.State)
		reasons[i], details[i], errors[i] = string(note.Reason), output.PlainText(note.Detail),
			output.PlainText(note.Error)
		var err error
		if blockers[i], err = encodeBlocker(note); err != nil {
			return nil, err
		}
		sinces[i] = note.WaitSince
	}
	return []any{names, runs, scheduledTimes, recoveries, versions, states, reasons, details,
		errors, blockers, sinces}, nil
}

// applyNotes sets stands for the notes at the indexes that are in effect.
func (s *Store) applyNotes(ctx context.Context, session uuid.UUID, notes []storage.Note,
	indexes []int, stands []bool) error {
	chosen := make([]storage.Note, len(indexes))
	place := make(map[uuid.UUID]int, len(indexes))
	for i, index := range indexes {
		chosen[i] = notes[index]
		place[chosen[i].Run] = index
	}
	columns, err := noteColumns(chosen)
	if err != nil {
		return err
	}
	return s.pipelineByHash(ctx, "note", func(b *pgx.Batch) {
		b.Queue(holdSession, session)
		b.Queue(lockWaits, columns[0])
		b.Queue(insertRuns, append([]any{session}, runColumns(asRequests(chosen))...)...)
		b.Queue(applyNotes, append([]any{session}, columns...)...)
		b.Queue(noteOutcomes, session, columns[0], columns[1]).Query(func(rows pgx.Rows) error {
			var run uuid.UUID
			var live, stood bool
			_, err := pgx.ForEachRow(rows, []any{&run, &live, &stood}, func() error {
				if !live {
					return storage.ErrSessionLost
				}
				stands[place[run]] = stood
				return nil
			})
			return err
		})
	})
}

func asRequests(notes []storage.Note) []storage.StartRequest {
	requests := make([]storage.StartRequest, len(notes))
	for i, n := range notes {
		requests[i] = storage.StartRequest{Run: n.Run, Firing: n.Firing, Version: n.Version}
	}
	return requests
}

func noteColumns(notes []storage.Note) ([]any, error) {
	n := len(notes)
	runs, states, reasons := make([]rawID, n), make([]string, n), make([]string, n)
	details, errors, blockers, sinces := make([]string, n), make([]string, n), make([]*string, n),
		make([]time.Time, n)
	var owners []rawID
	var names, modes []string
	var slots []int
	reserves := make([]time.Duration, n)
	for i, note := range notes {
		if len(note.Requests) > 0 { // otherwise there is nothing to reserve
			reserves[i] = note.Reserve
		}
		runs[i], states[i], reasons[i] = note.Run, string(note.State), string(note.Reason)
		details[i], errors[i], sinces[i] = output.PlainText(note.Detail),
			output.PlainText(note.Error),
			note.WaitSince
		var err error
		if blockers[i], err = encodeBlocker(note); err != nil {
			return nil, err
		}
		for _, want := range note.Requests {
			owners, names = append(owners, note.Run), append(names, want.Resource.Key())
			modes, slots = append(modes, string(want.Mode)), append(slots, want.Slots)
		}
	}
	return []any{runs, states, reasons, details, errors, blockers, sinces, owners, names, modes,
		slots, reserves}, nil
}

// encodeBlocker returns the stored form of the note's blocker, or nil if it has none.
func encodeBlocker(note storage.Note) (*string, error) {
	if note.Blocker == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(note.Blocker)
	if err != nil {
		return nil, fmt.Errorf("encode blocker of job %s: %w", note.Firing.Job, err)
	}
	text := output.PlainText(string(encoded))
	return &text, nil
}

// sortedTokens returns the tokens in the order in which claims are locked.
func sortedTokens(requests []storage.FinishRequest) []jobs.Token {
	tokens := make([]jobs.Token, len(requests))
	for i, r := range requests {
		tokens[i] = r.Token
	}
	slices.Sort(tokens)
	return tokens
}
