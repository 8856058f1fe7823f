package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// dependentCursors runs before openScheduledTimes, which therefore finds a row for every firing
	// up to a cursor.
	dependentCursors = `SELECT name, version, checked_until FROM holdfast.jobs WHERE name = ANY($1)`

	// openScheduledTimes reads the rows of the first dependency after the dependent's cursor. For
	// each it reads one row of every other dependency and the dependent's own row. The last is a
	// subquery, because a plan for a join might read a job's whole history. At most one of a
	// firing's rows is in the requested states: a recovery has marked the others lost.
	openScheduledTimes = `
SELECT f.name, o.scheduled_at, o.ready
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
    AS f (name, version, job_group, first, others, before)
CROSS JOIN LATERAL (
    SELECT j.checked_until FROM holdfast.jobs j
        WHERE j.name = f.name COLLATE "C" AND j.version = f.version OFFSET 0) j
LEFT JOIN LATERAL (
    SELECT r.scheduled_at, CASE WHEN r.state = 'succeeded'
        AND rest.succeeded THEN greatest(r.finished_at, rest.finished_at) END AS ready
    FROM holdfast.runs r
    CROSS JOIN LATERAL (
        SELECT coalesce(bool_and(p.state IS NOT NULL), true) AS open,
            coalesce(bool_and(p.state = 'succeeded'), true) AS succeeded,
            max(p.finished_at) AS finished_at
        FROM jsonb_array_elements_text(f.others::jsonb) AS n (name)
        LEFT JOIN LATERAL (
            SELECT p.state, p.finished_at FROM holdfast.runs p
            WHERE p.job = n.name COLLATE "C" AND p.scheduled_at = r.scheduled_at AND p.key = ''
                AND p.state IN ('waiting', 'running', 'succeeded') OFFSET 0) p ON true
        ) rest
    WHERE r.job = f.first COLLATE "C" AND r.key = '' AND r.scheduled_at > j.checked_until
        AND r.scheduled_at < coalesce(f.before, 'infinity')
        AND r.state IN ('waiting', 'running', 'succeeded') AND rest.open
        AND (SELECT 1 FROM holdfast.runs own
            WHERE own.job = f.name COLLATE "C" AND own.scheduled_at = r.scheduled_at
                AND own.key = '' LIMIT 1) IS NULL
    ORDER BY r.scheduled_at DESC LIMIT $7) o ON true
WHERE (
    SELECT 1 FROM unnest(ARRAY['all', 'job', 'group'], ARRAY['', f.name, f.job_group]) AS t (kind,
        name)
    CROSS JOIN LATERAL (SELECT FROM holdfast.pauses p
        WHERE p.kind = t.kind AND p.name = t.name COLLATE "C" AND p.resumed_at IS NULL OFFSET 0) p
    LIMIT 1) IS NULL`
)

// OpenFirings implements storage.Dependents.
func (s *Store) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	columns, names, err := dependentColumns(dependents)
	if err != nil {
		return nil, err
	}
	activeDefinitions := map[string]storage.ActiveDefinition{}
	scheduledTimes := map[string][]storage.OpenFiring{}
	err = s.pipeline(ctx, "list open firings", func(b *pgx.Batch) {
		b.Queue(dependentCursors, names).Query(func(rows pgx.Rows) error {
			var name string
			var version int64
			var at time.Time
			_, err := pgx.ForEachRow(rows, []any{&name, &version, &at}, func() error {
				activeDefinitions[name] = storage.ActiveDefinition{Version: version,
					CheckedUntil: at.UTC()}
				return nil
			})
			return err
		})
		b.Queue(openScheduledTimes, append(columns, storage.MaxBatch)...).
			Query(func(rows pgx.Rows) error { return collectOpenFirings(rows, scheduledTimes) })
	})
	if err != nil {
		return nil, err
	}
	return storage.OpenFiringsOf(dependents, activeDefinitions, scheduledTimes), nil
}

// collectOpenFirings adds the open firings, possibly none, to each dependent that the rows name.
func collectOpenFirings(rows pgx.Rows, scheduledTimes map[string][]storage.OpenFiring) error {
	var name string
	var scheduledAt, ready *time.Time
	_, err := pgx.ForEachRow(rows, []any{&name, &scheduledAt, &ready}, func() error {
		if scheduledTimes[name] == nil {
			scheduledTimes[name] = []storage.OpenFiring{}
		}
		if scheduledAt == nil {
			return nil
		}
		o := storage.OpenFiring{ScheduledAt: scheduledAt.UTC()}
		if ready != nil {
			o.Ready = ready.UTC()
		}
		scheduledTimes[name] = append(scheduledTimes[name], o)
		return nil
	})
	for _, open := range scheduledTimes {
		slices.SortFunc(open, func(a, b storage.OpenFiring) int {
			return a.ScheduledAt.Compare(b.ScheduledAt)
		})
	}
	return err
}

// dependentColumns returns the columns of openScheduledTimes, and the names of all dependents and
// dependencies.
func dependentColumns(dependents []storage.Dependent) (columns []any, all []string, err error) {
	n := len(dependents)
	names, versions, groups := make([]string, n), make([]int64, n), make([]string, n)
	firsts, others := make([]string, n), make([]string, n)
	before := make([]*time.Time, n)
	for i, f := range dependents {
		names[i], versions[i], groups[i], firsts[i] = f.Job, f.Version, f.Group, f.After[0]
		encoded, err := json.Marshal(f.After[1:])
		if err != nil {
			return nil, nil, err
		}
		others[i] = string(encoded)
		if !f.Before.IsZero() {
			before[i] = &f.Before
		}
		all = append(append(all, f.Job), f.After...)
	}
	slices.Sort(all)
	return []any{names, versions, groups, firsts, others, before}, slices.Compact(all), nil
}

// AddDependents implements storage.Dependents.
func (s *Store) AddDependents(ctx context.Context,
	dependentFirings []storage.DependentFiring) error {
	runs, versions := make([]storage.Misfired, len(dependentFirings)),
		make(map[string]int64, len(dependentFirings))
	for i, f := range dependentFirings {
		runs[i] = storage.Misfired{Firing: f.Firing, Run: f.Run, State: jobs.Waiting,
			Reason: reasons.After, Detail: f.Detail}
		versions[f.Firing.Job] = f.Version
	}
	return s.pipeline(ctx, "add runs of dependents", func(b *pgx.Batch) {
		b.Queue(insertMisfires, misfireColumns(runs, versions)...)
	})
}
