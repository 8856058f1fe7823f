package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	dependentCursors = `SELECT j.name, j.version, j.checked_until FROM json_each(?1) q CROSS
		JOIN holdfast_jobs j ON j.name = q.value`

	pausedNow = `
SELECT count(*) FROM json_each(json_array('all', 'job', 'group')) k
    JOIN json_each(json_array('', ?1, ?2)) n ON n.key = k.key
CROSS JOIN holdfast_pauses p ON p.kind = k.value AND p.name = n.value AND p.resumed_at IS NULL`

	// openScheduledTimes reads the rows of the first dependency after the dependent's cursor. For
	// each it reads the rows of the other dependencies and the dependent's own. At most one of a
	// firing's rows is in the requested states.
	openScheduledTimes = `
SELECT r.scheduled_at, CASE WHEN r.state = 'succeeded'
    AND NOT EXISTS (SELECT 1 FROM json_each(?3) n WHERE NOT EXISTS (
        SELECT 1 FROM holdfast_runs p WHERE p.job = n.value AND p.scheduled_at = r.scheduled_at
            AND p.key = '' AND p.state = 'succeeded'))
    THEN max(r.finished_at, coalesce((
        SELECT max(p.finished_at) FROM json_each(?3) n CROSS JOIN holdfast_runs p
        ON p.job = n.value AND p.scheduled_at = r.scheduled_at AND p.key = ''
            AND p.state = 'succeeded'), 0)) END
FROM holdfast_runs r
WHERE r.job = ?1 AND r.key = '' AND r.scheduled_at > ?2
    AND r.scheduled_at < ?6 AND r.state IN ('waiting', 'running', 'succeeded')
    AND NOT EXISTS (SELECT 1 FROM json_each(?3) n WHERE NOT EXISTS (
        SELECT 1 FROM holdfast_runs p WHERE p.job = n.value AND p.scheduled_at = r.scheduled_at
            AND p.key = '' AND p.state IN ('waiting', 'running', 'succeeded')))
    AND NOT EXISTS (SELECT 1 FROM holdfast_runs own
        WHERE own.job = ?4 AND own.scheduled_at = r.scheduled_at AND own.key = '')
ORDER BY r.scheduled_at DESC LIMIT ?5`
)

// OpenFirings implements storage.Dependents.
func (s *Store) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	// The cursors are read before the runs, so each firing up to a cursor has a row.
	activeDefinitions, err := s.dependentCursors(ctx, dependents)
	if err != nil {
		return nil, wrap("list open firings", err)
	}
	scheduledTimes := map[string][]storage.OpenFiring{}
	for _, f := range dependents {
		if activeDefinitions[f.Job].Version != f.Version {
			continue
		}
		var pauses int
		if err := s.readers.QueryRowContext(ctx, pausedNow, f.Job, f.Group).
			Scan(&pauses); err != nil {
			return nil, wrap("list open firings", err)
		}
		if pauses > 0 {
			continue
		}
		if scheduledTimes[f.Job], err = s.openScheduledTimes(ctx, f,
			activeDefinitions[f.Job].CheckedUntil); err != nil {
			return nil, wrap("list open firings", err)
		}
	}
	return storage.OpenFiringsOf(dependents, activeDefinitions, scheduledTimes), nil
}

// dependentCursors returns the active definitions of the dependents and of their dependencies, by
// name.
func (s *Store) dependentCursors(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.ActiveDefinition, error) {
	var names []string
	for _, f := range dependents {
		names = append(append(names, f.Job), f.After...)
	}
	slices.Sort(names)
	encoded, err := encode(append([]string{}, slices.Compact(names)...))
	if err != nil {
		return nil, err
	}
	activeDefinitions := map[string]storage.ActiveDefinition{}
	err = each(ctx, s.readers, dependentCursors, []any{encoded}, func(rows *sql.Rows) error {
		var name string
		var version, at int64
		err := rows.Scan(&name, &version, &at)
		activeDefinitions[name] = storage.ActiveDefinition{Version: version,
			CheckedUntil: fromMicros(at)}
		return err
	})
	return activeDefinitions, err
}

func (s *Store) openScheduledTimes(ctx context.Context, f storage.Dependent,
	since time.Time) ([]storage.OpenFiring, error) {
	others, err := encode(f.After[1:])
	if err != nil {
		return nil, err
	}
	before := int64(math.MaxInt64)
	if !f.Before.IsZero() {
		before = micros(f.Before)
	}
	scheduledTimes := []storage.OpenFiring{}
	err = each(ctx, s.readers, openScheduledTimes,
		[]any{f.After[0], micros(since), others, f.Job, storage.MaxBatch, before},
		func(rows *sql.Rows) error {
			var scheduledAt int64
			var ready sql.NullInt64
			err := rows.Scan(&scheduledAt, &ready)
			o := storage.OpenFiring{ScheduledAt: fromMicros(scheduledAt)}
			if ready.Valid {
				o.Ready = fromMicros(ready.Int64)
			}
			scheduledTimes = append(scheduledTimes, o)
			return err
		})
	slices.Reverse(scheduledTimes)
	return scheduledTimes, err
}

// AddDependents implements storage.Dependents.
func (s *Store) AddDependents(ctx context.Context,
	dependentFirings []storage.DependentFiring) error {
	if err := s.exclusively("runs of dependents"); err != nil {
		return err
	}
	return s.write(ctx, "add runs of dependents", func(tx *sql.Tx) error {
		now := rules.Whole(time.Now())
		var runs []runRow
		for _, f := range dependentFirings {
			_, activeDefinitions, err := cursorOf(ctx, tx,
				storage.MisfireCheck{Job: f.Firing.Job, Version: f.Version})
			if err != nil {
				return err
			}
			if activeDefinitions {
				runs = append(runs, runRow{Run: rules.NewMisfired(storage.Misfired{
					Firing: f.Firing, Run: f.Run, State: jobs.Waiting, Reason: reasons.After,
					Detail: f.Detail}, now)})
			}
		}
		return execRows(ctx, tx, addRun, runs)
	})
}
