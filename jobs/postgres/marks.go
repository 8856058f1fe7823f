package postgres

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// readMarks reads small tables, and the end of large ones. Tokens only grow, so that the last token
// and the sum of the live ones change with each claim that is added or deleted. A run that was
// created just before the youngest may be committed after it. So the marks count the runs of the
// two seconds before. With one bound of the time, the planner expects a third of the table, and
// reads all of it. The function for the last token needs no right to read the sequence.
const readMarks = `
WITH claimed AS (
    SELECT coalesce(pg_sequence_last_value('holdfast.tokens'), 0) || ' '
            || coalesce(sum(token), 0) AS mark
        FROM holdfast.claims
), waiting AS (
    SELECT count(*) || ' ' || coalesce(sum(hashtextextended(run::text || since::text, 0)),
        0) AS mark
    FROM (SELECT run, since FROM holdfast.waits LIMIT 10000) w
), youngest AS (
    SELECT created_at, id FROM holdfast.runs WHERE ` + byCreation + `
        ORDER BY created_at DESC, id DESC LIMIT 1
), latest AS (
    SELECT at, id FROM holdfast.audit ORDER BY at DESC, id DESC LIMIT 1
)
SELECT
    concat_ws(' ', c.mark, w.mark, (SELECT id FROM youngest), (SELECT count(*) FROM (
        SELECT FROM holdfast.runs WHERE created_at
                BETWEEN (SELECT created_at FROM youngest) - interval '2 s'
                AND (SELECT created_at FROM youngest) AND ` + byCreation + `
            ORDER BY created_at DESC LIMIT 1000) lately)),
    concat_ws(' ', c.mark, w.mark),
    (SELECT definitions || ' ' || control_version FROM holdfast.meta),
    (SELECT md5(coalesce(string_agg(concat_ws(' ', id, version, ended_at,
        expires_at <= clock_timestamp(), draining, workers, not_ready, stopping, databases,
        config_hash, lock_servers), ',' ORDER BY id), ''))
            FROM (SELECT * FROM holdfast.sessions
                WHERE ended_at IS NULL OR ended_at > clock_timestamp() - $1::interval) s),
    concat_ws(' ', (SELECT id FROM latest), (SELECT count(*) FROM (
        SELECT FROM holdfast.audit WHERE at BETWEEN (SELECT at FROM latest) - interval '2 s'
                AND (SELECT at FROM latest) ORDER BY at DESC LIMIT 1000) lately)),
    (SELECT concat_ws(' ', count(*), sum(tries), max(next_at), max(gave_up_at))
        FROM (SELECT tries, next_at, gave_up_at FROM holdfast.deliveries LIMIT 1000) d)
FROM claimed c, waiting w`

// Marks implements storage.Marked.
func (s *Store) Marks(ctx context.Context) (storage.Marks, error) {
	marks := make([]string, len(storage.Topics()))
	into := make([]any, len(marks))
	for i := range marks {
		into[i] = &marks[i]
	}
	if err := s.views.QueryRow(ctx, readMarks, storage.SessionsKept).Scan(into...); err != nil {
		return nil, wrap("read marks", err)
	}
	found := make(storage.Marks, len(marks))
	for i, topic := range storage.Topics() {
		found[topic] = marks[i]
	}
	return found, nil
}
