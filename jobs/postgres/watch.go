package postgres

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// watchRun also deletes watches that have ended. It does not wait for their rows: it has locked
	// its own row before, so two calls could wait for each other.
	watchRun = `
WITH gone AS (
    DELETE FROM holdfast.watches WHERE run = ANY(ARRAY(SELECT run FROM holdfast.watches
        WHERE run <> $1 AND until < clock_timestamp() - $2::interval FOR UPDATE SKIP LOCKED))
)
INSERT INTO holdfast.watches AS w (run, until)
SELECT r.id, clock_timestamp() + $2::interval FROM holdfast.runs r
    WHERE r.id = $1 AND r.state = 'running'
ON CONFLICT (run) DO UPDATE SET until = excluded.until
    WHERE w.until < clock_timestamp() + $2::interval / 2`

	// saveOutputs locks claims first, as a finish does, and skips claims that a finish has locked.
	saveOutputs = `
WITH live_claims AS MATERIALIZED (
    SELECT c.token, c.run FROM holdfast.claims c WHERE c.token = ANY($1) AND c.run IS NOT NULL
        ORDER BY c.token FOR KEY SHARE SKIP LOCKED
)
INSERT INTO holdfast.outputs AS o (run, output)
SELECT s.run, q.output FROM live_claims s JOIN unnest($1::bigint[], $2::text[]) AS q (token,
    output) USING (token) ORDER BY s.run
ON CONFLICT (run) DO UPDATE SET output = excluded.output`
)

// Watch implements storage.Watching.
func (s *Store) Watch(ctx context.Context, run uuid.UUID) error {
	_, err := s.views.Exec(ctx, watchRun, run, storage.WatchLasts)
	return wrap("watch run", err)
}

// SaveOutput implements storage.Watching.
func (s *Store) SaveOutput(ctx context.Context, outputs []storage.Output) error {
	tokens, texts := make([]jobs.Token, len(outputs)), make([]string, len(outputs))
	for i, o := range outputs {
		tokens[i], texts[i] = o.Token, output.PlainText(o.Text)
	}
	_, err := s.pool.Exec(ctx, saveOutputs, tokens, texts)
	return wrap("save output", err)
}
