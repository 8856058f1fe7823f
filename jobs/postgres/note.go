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
	if len(notes) == 0 {
		return stands, nil
	}
	columns, err := noteColumns(notes)
	if err != nil {
		return nil, err
	}
	err = s.pipeline(ctx, "note", func(b *pgx.Batch) {
		b.Queue(joinByHash)
		b.Queue(holdSession, session)
		b.Queue(lockWaits, columns[0])
		b.Queue(insertRuns, append([]any{session}, runColumns(asRequests(notes))...)...)
		b.Queue(applyNotes, append([]any{session}, columns...)...)
		place := make(map[uuid.UUID]int, len(notes))
		for i, n := range notes {
			place[n.Run] = i
		}
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
	if err != nil {
		return nil, err
	}
	return stands, nil
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
		if note.Blocker != nil {
			encoded, err := json.Marshal(note.Blocker)
			if err != nil {
				return nil, fmt.Errorf("encode blocker of job %s: %w", note.Firing.Job, err)
			}
			text := output.PlainText(string(encoded))
			blockers[i] = &text
		}
		for _, want := range note.Requests {
			owners, names = append(owners, note.Run), append(names, want.Resource.Key())
			modes, slots = append(modes, string(want.Mode)), append(slots, want.Slots)
		}
	}
	return []any{runs, states, reasons, details, errors, blockers, sinces, owners, names, modes,
		slots, reserves}, nil
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
