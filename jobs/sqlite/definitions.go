package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// The next three statements are for one definition each. To expand the definitions from JSON,
	// as most statements do with a batch, takes four times as long as to insert them.
	addDefinition = `
INSERT INTO holdfast_definitions (job, hash, version, schedule, zone, handler, resources, recover,
    description, job_group, priority, source, fingerprint, after, may_overlap)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

	changeDescription = `
UPDATE holdfast_definitions SET description = ?3, source = ?4 WHERE job = ?1 AND version = ?2`

	addSessionJob = `
INSERT INTO holdfast_session_jobs (session, job, version) VALUES (?1, ?2, ?3)
ON CONFLICT (session, job) DO UPDATE SET version = excluded.version`

	knownDefinitions = `
SELECT d.job, d.hash, d.version, d.description, d.source FROM json_each(?1) q
CROSS JOIN holdfast_definitions d ON d.job = q.value`

	removedJobs = `SELECT job FROM holdfast_specs WHERE removed`

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

	sameScheduledTimes = `(j.version = excluded.version
        OR EXISTS (SELECT 1 FROM holdfast_definitions o
		JOIN holdfast_definitions d ON d.job = o.job
        WHERE o.job = j.name AND o.version = j.version AND d.version = excluded.version
            AND d.zone = o.zone
            AND CASE WHEN '' IN (d.fingerprint, o.fingerprint) THEN d.schedule = o.schedule
                ELSE d.fingerprint = o.fingerprint END))`

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

	changeCounters = `SELECT definitions, control_version FROM holdfast_meta`

	activeDefinitions = `SELECT name, version, checked_until FROM holdfast_jobs`
)

// Register implements storage.Sessions.
func (s *Store) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	if err := s.exclusively("job registration"); err != nil {
		return nil, err
	}
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.Name
	}
	var versions map[string]int64
	err := s.write(ctx, "register jobs", func(tx *sql.Tx) error {
		if _, live := s.sessions.get(session); !live {
			return storage.ErrSessionLost
		}
		if err := s.settle(ctx, tx); err != nil { // what a former process left must not outlive it
			return err
		}
		var err error
		if versions, err = addDefinitions(ctx, tx, names, definitions); err != nil {
			return err
		}
		if err := subscribe(ctx, tx, definitions); err != nil {
			return err
		}
		if err := carry(ctx, tx, session, definitions, versions); err != nil {
			return err
		}
		return enforce(ctx, tx, names)
	})
	return versions, err
}

// addDefinitions adds those definitions that do not exist, and returns the versions of all by job.
// It changes the description of a definition that exists.
func addDefinitions(ctx context.Context, tx *sql.Tx, names []string,
	definitions []storage.Definition) (map[string]int64, error) {
	known, newest, err := readDefinitions(ctx, tx, names)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]int64, len(definitions))
	var added []addedDefinition
	var described []describedDefinition
	for i := range definitions {
		d := &definitions[i]
		found, exists := known[definitionKey{d.Name, d.Hash}]
		if !exists {
			found.version = newest[d.Name] + 1
			added = append(added, addedDefinition{d, found.version})
		} else if found.description != d.Description || found.source != source(d) {
			described = append(described, describedDefinition{d, found.version})
		}
		versions[d.Name] = found.version
	}
	if err := execRows(ctx, tx, addDefinition, added); err != nil {
		return nil, err
	}
	return versions, execRows(ctx, tx, changeDescription, described)
}

// definitionKey identifies a definition.
type definitionKey struct{ job, hash string }

// knownDefinition is a stored definition.
type knownDefinition struct {
	version             int64
	description, source string
}

// readDefinitions returns the definitions of the jobs, and the newest version of each job.
func readDefinitions(ctx context.Context, tx *sql.Tx, names []string) (
	known map[definitionKey]knownDefinition, newest map[string]int64, err error) {
	encoded, err := encode(names)
	if err != nil {
		return nil, nil, err
	}
	known, newest = map[definitionKey]knownDefinition{}, map[string]int64{}
	err = each(ctx, tx, knownDefinitions, []any{encoded}, func(rows *sql.Rows) error {
		var key definitionKey
		var d knownDefinition
		err := rows.Scan(&key.job, &key.hash, &d.version, &d.description, &d.source)
		known[key], newest[key.job] = d, max(newest[key.job], d.version)
		return err
	})
	return known, newest, err
}

// addedDefinition is a row of holdfast_definitions.
type addedDefinition struct {
	*storage.Definition
	version int64
}

func (r addedDefinition) values() []any {
	return []any{r.Name, r.Hash, r.version, r.Schedule, r.Zone, r.Handler,
		jsonColumn{storeRequests(r.Resources)}, r.Recover, r.Description, r.Group,
		cmp.Or(r.Priority, 5), source(r.Definition), r.Fingerprint,
		jsonColumn{append([]string{}, r.After...)}, r.MayOverlap}
}

// describedDefinition is a definition whose description or source has changed.
type describedDefinition struct {
	*storage.Definition
	version int64
}

func (r describedDefinition) values() []any {
	return []any{r.Name, r.version, r.Description, source(r.Definition)}
}

func source(d *storage.Definition) string { return string(cmp.Or(d.Source, storage.FromConfig)) }

// carry adds definitions to a session. No session gets a removed job, even if its replica does not
// know of the removal yet.
func carry(ctx context.Context, tx *sql.Tx, session uuid.UUID, definitions []storage.Definition,
	versions map[string]int64) error {
	removed := map[string]bool{}
	err := each(ctx, tx, removedJobs, nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		removed[name] = true
		return err
	})
	if err != nil {
		return err
	}
	carried := make([]sessionJob, 0, len(definitions))
	for _, d := range definitions {
		if d.Source != storage.FromStore || !removed[d.Name] {
			carried = append(carried, sessionJob{session.String(), d.Name, versions[d.Name]})
		}
	}
	return execRows(ctx, tx, addSessionJob, carried)
}

// sessionJob is a row of holdfast_session_jobs.
type sessionJob struct {
	session, job string
	version      int64
}

func (r sessionJob) values() []any { return []any{r.session, r.job, r.version} }

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
