package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	addDefinitions = `
INSERT INTO holdfast_definitions AS d (job, hash, version, schedule, zone, handler, resources,
    recover, description, job_group, priority, source, fingerprint, after, may_overlap)
SELECT q.value->>'job', q.value->>'hash',
    1 + coalesce((SELECT max(o.version) FROM holdfast_definitions o WHERE o.job = q.value->>'job'),
        0),
    q.value->>'schedule', q.value->>'zone', q.value->>'handler', q.value->>'resources',
        q.value->>'recover', q.value->>'description',
    q.value->>'group', q.value->>'priority', q.value->>'source', q.value->>'fingerprint',
        q.value->'after', q.value->>'may_overlap'
FROM json_each(?1) q WHERE true
ON CONFLICT (job, hash) DO UPDATE SET description = excluded.description, source = excluded.source
WHERE d.description <> excluded.description OR d.source <> excluded.source`

	// No session gets a removed job, even if its replica does not know of the removal yet.
	addSessionJobs = `
INSERT INTO holdfast_session_jobs (session, job, version)
SELECT ?2, d.job, d.version FROM json_each(?1) q
CROSS JOIN holdfast_definitions d ON d.job = q.value->>'job' AND d.hash = q.value->>'hash'
WHERE q.value->>'source' = 'config' OR NOT EXISTS (SELECT 1 FROM holdfast_specs s
    WHERE s.job = q.value->>'job' AND s.removed)
ON CONFLICT (session, job) DO UPDATE SET version = excluded.version`

	registeredVersions = `
SELECT d.job, d.version FROM json_each(?1) q CROSS
    JOIN holdfast_definitions d ON d.job = q.value->>'job' AND d.hash = q.value->>'hash'`

	unsettledSessions = `
SELECT s.id FROM holdfast_sessions s
WHERE s.id NOT IN (SELECT value FROM json_each(?1))
    AND EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.session = s.id)`

	dropCarried = `DELETE FROM holdfast_session_jobs WHERE session = ?1 RETURNING job`

	// The cursor moves only if the scheduled times change, or if an absent job returns: otherwise a
	// changed definition would skip scheduled times that no replica has started yet.
	activateDefinitions = `
INSERT INTO holdfast_jobs AS j (name, version, checked_until, updated_at)
SELECT n.job, n.version, ?2, ?2 FROM (
    SELECT q.value AS job, (SELECT max(c.version) FROM holdfast_session_jobs c
        WHERE c.job = q.value) AS version FROM json_each(?1) q) n
WHERE n.version IS NOT NULL
ON CONFLICT (name) DO UPDATE SET version = excluded.version,
    updated_at = CASE WHEN j.version <> excluded.version
        OR ` + wasAbsent + ` THEN excluded.updated_at ELSE j.updated_at END,
    back_at = CASE WHEN j.left_at IS NOT NULL THEN coalesce(j.back_at, excluded.updated_at) END,
    checked_until = CASE WHEN ` + sameScheduledTimes + `
        AND NOT ` + wasAbsent + ` THEN j.checked_until
            ELSE max(j.checked_until, excluded.checked_until) END
WHERE j.version <> excluded.version OR j.left_at IS NOT NULL AND j.back_at IS NULL`

	sameScheduledTimes = `EXISTS (SELECT 1 FROM holdfast_definitions o
		JOIN holdfast_definitions d ON d.job = o.job
        WHERE o.job = j.name AND o.version = j.version AND d.version = excluded.version
            AND d.zone = o.zone
            AND CASE WHEN '' IN (d.fingerprint, o.fingerprint) THEN d.schedule = o.schedule
                ELSE d.fingerprint = o.fingerprint END)`

	// wasAbsent: no session had the job for longer than ?3, which is storage.MaxAbsence in
	// microseconds, while a session without it was live.
	wasAbsent = `(j.left_at IS NOT NULL AND j.back_at IS NULL AND EXISTS (
        SELECT 1 FROM holdfast_sessions s WHERE s.renewed_at
            - max(s.started_at, j.left_at) > ?3))`

	withdrawJobs = `DELETE FROM holdfast_session_jobs
		WHERE session = ?1 AND job IN (SELECT value FROM json_each(?2))`

	noteTable = `UPDATE holdfast_sessions SET config_hash = ?2 WHERE id = ?1 AND ended_at IS NULL`

	// leaveNow is leaveJobs for jobs that a live session has withdrawn.
	leaveNow = `
UPDATE holdfast_jobs SET left_at = ?2, back_at = NULL
WHERE name IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.job = name)`

	leaveJobs = `
UPDATE holdfast_jobs SET left_at = (SELECT max(s.renewed_at) FROM holdfast_sessions s
    WHERE s.id IN (SELECT value FROM json_each(?2))), back_at = NULL
WHERE name IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.job = name)`

	countChange = `UPDATE holdfast_meta SET definitions = definitions + 1`

	definitionChanges = `SELECT definitions FROM holdfast_meta`

	activeDefinitions = `SELECT name, version, checked_until FROM holdfast_jobs`
)

// definitionRow is a row of holdfast_definitions without its version.
type definitionRow struct {
	Job         string `json:"job"`
	Hash        string `json:"hash"`
	Schedule    string `json:"schedule"`
	Zone        string `json:"zone"`
	Handler     string `json:"handler"`
	Resources   string `json:"resources"`
	Recover     bool   `json:"recover"`
	Description string `json:"description"`
	Group       string `json:"group"`
	Priority    int    `json:"priority"`
	Source      string `json:"source"`
	Fingerprint string `json:"fingerprint"`

	After      []string `json:"after"`
	MayOverlap bool     `json:"may_overlap"`
}

// Register implements storage.Sessions.
func (s *Store) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	if err := s.exclusively("job registration"); err != nil {
		return nil, err
	}
	rows, names := make([]definitionRow, len(definitions)), make([]string, len(definitions))
	for i, d := range definitions {
		resources, err := encodeRequests(d.Resources)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", d.Name, err)
		}
		names[i] = d.Name
		rows[i] = definitionRow{d.Name, d.Hash, d.Schedule, d.Zone, d.Handler, resources, d.Recover,
			d.Description,
			d.Group, cmp.Or(d.Priority, 5), string(cmp.Or(d.Source, storage.FromConfig)),
			d.Fingerprint, append([]string{}, d.After...), d.MayOverlap}
	}
	encoded, err := encode(rows)
	if err != nil {
		return nil, err
	}
	var versions map[string]int64
	err = s.write(ctx, "register jobs", func(tx *sql.Tx) error {
		if _, live := s.sessions.get(session); !live {
			return storage.ErrSessionLost
		}
		if err := s.settle(ctx, tx); err != nil { // what a former process left must not outlive it
			return err
		}
		if _, err := tx.ExecContext(ctx, addDefinitions, encoded); err != nil {
			return err
		}
		if err := subscribe(ctx, tx, definitions); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, addSessionJobs, encoded, session); err != nil {
			return err
		}
		if err := enforce(ctx, tx, names); err != nil {
			return err
		}
		versions, err = readVersions(ctx, tx, encoded)
		return err
	})
	return versions, err
}

func readVersions(ctx context.Context, tx *sql.Tx, definitions string) (map[string]int64, error) {
	versions := map[string]int64{}
	err := each(ctx, tx, registeredVersions, []any{definitions}, func(rows *sql.Rows) error {
		var name string
		var version int64
		err := rows.Scan(&name, &version)
		versions[name] = version
		return err
	})
	return versions, err
}

// settle removes the jobs of dead sessions, and activates the newest definitions of the remaining
// sessions.
func (s *Store) settle(ctx context.Context, tx *sql.Tx) error {
	live, err := encode(s.sessions.liveIDs())
	if err != nil {
		return err
	}
	var dead []uuid.UUID
	err = each(ctx, tx, unsettledSessions, []any{live}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		dead = append(dead, id)
		return err
	})
	if err != nil {
		return err
	}
	var names []string
	for _, session := range dead {
		err := each(ctx, tx, dropCarried, []any{session}, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := leave(ctx, tx, names, dead); err != nil {
		return err
	}
	return enforce(ctx, tx, names)
}

// leave records since when no session has a job: since the death of the last session that had it,
// as far as known.
func leave(ctx context.Context, tx *sql.Tx, names []string, dead []uuid.UUID) error {
	if len(names) == 0 {
		return nil
	}
	left, err := encode(names)
	if err != nil {
		return err
	}
	sessions, err := encode(dead)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, leaveJobs, left, sessions)
	return err
}

// enforce activates the newest definitions that sessions have. If no session has the job, its
// active definition remains.
func enforce(ctx context.Context, tx *sql.Tx, names []string) error {
	encoded, err := encode(names)
	if err != nil || len(names) == 0 {
		return err
	}
	done, err := tx.ExecContext(ctx, activateDefinitions, encoded, micros(time.Now()),
		storage.MaxAbsence.Microseconds())
	if err != nil {
		return err
	}
	if changed, err := done.RowsAffected(); err != nil || changed == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, countChange)
	return err
}

// Withdraw implements storage.Sessions.
func (s *Store) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	if err := s.exclusively("withdrawal of jobs"); err != nil {
		return err
	}
	withdrawn, err := encode(names)
	if err != nil {
		return err
	}
	return s.write(ctx, "withdraw jobs", func(tx *sql.Tx) error {
		if _, live := s.sessions.get(session); !live {
			return nil // a sweep settles it, or has settled it
		}
		if _, err := tx.ExecContext(ctx, noteTable, session, table); err != nil {
			return err
		}
		gone, err := tx.ExecContext(ctx, withdrawJobs, session, withdrawn)
		if err != nil {
			return err
		}
		if n, err := gone.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, leaveNow, withdrawn, micros(time.Now())); err != nil {
			return err
		}
		return enforce(ctx, tx, names)
	})
}

// Versions implements storage.Sessions.
func (s *Store) Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error) {
	versions := map[string]storage.ActiveDefinition{}
	err := each(ctx, s.readers, activeDefinitions, nil, func(rows *sql.Rows) error {
		var name string
		var version, checked int64
		err := rows.Scan(&name, &version, &checked)
		versions[name] = storage.ActiveDefinition{Version: version,
			CheckedUntil: fromMicros(checked)}
		return err
	})
	return versions, wrap("list active definitions", err)
}
