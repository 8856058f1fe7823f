package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Expire makes a session's TTL run out at once.
func (s *Store) Expire(session uuid.UUID) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	s.sessions.all[session].expires = time.Now()
}

// LogTo sets the log.
func (s *Store) LogTo(log zerolog.Logger) { s.log = log }

// Migrate applies the migrations of files up to the given version.
func (s *Store) Migrate(ctx context.Context, files fs.FS, version int) error {
	return s.migrate(ctx, files, version)
}

// Migrations returns the migrations of this binary.
func Migrations() fs.FS { return migrations }

// Writer is the writing connection.
func (s *Store) Writer() *sql.DB { return s.writer }

const (
	MaxPrepared     = maxPrepared
	MaxPreparedText = maxPreparedText
)

// OpenPool opens a pool on a file, as a store does.
func OpenPool(path string) (*sql.DB, error) {
	return openPool(dsn(path, time.Second, "immediate"))
}

// CachedStatements returns the cached statements of one connection of the pool, and their texts.
func CachedStatements(ctx context.Context, pool *sql.DB) (map[any]string, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	cached := map[any]string{}
	err = conn.Raw(func(driverConn any) error {
		for _, s := range driverConn.(*connection).cached {
			cached[s] = s.text
		}
		return nil
	})
	return cached, err
}

var (
	CheckStatement = checkStatement
	RunsQuery      = runsQuery
)

// Queries are the statements on growing tables, each with the access that its plan must have.
var Queries = []struct{ Name, SQL, Want string }{
	{"knownRuns", knownRuns, "SEARCH r USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"claimsOfRuns", claimsOfRuns,
		"SEARCH c USING COVERING INDEX sqlite_autoindex_holdfast_claims_1 (run=?)"},
	{"takenFirings", takenFirings, "SEARCH r USING COVERING INDEX holdfast_runs_scheduled (job=? AND scheduled_at=? AND recovery=?)"},
	{"takenKeys", takenKeys, "SEARCH r USING COVERING INDEX holdfast_runs_key (job=? AND key=? AND recovery=?)"},
	{"endRun", endRun, "SEARCH holdfast_runs USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"takeRuns", takeRuns, "SEARCH holdfast_runs USING COVERING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"cancelWaiting", cancelWaiting, "SEARCH holdfast_runs USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"waitingOf", waitingOf, "SEARCH holdfast_runs USING INDEX holdfast_runs_state (state=?)"},
	{"leftOfRemoved", leftOfRemoved, "SEARCH holdfast_runs USING INDEX holdfast_runs_state (state=?)"},
	{"abandoned", abandoned, "SEARCH r USING INDEX holdfast_runs_state (state=?)"},
	{"pruneRuns", pruneRuns, "SEARCH r USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"pruneRuns, the last", pruneRuns, "SEARCH y USING INDEX holdfast_runs_job (job=? AND created_at>?)"},
	{"triggeredRuns", triggeredRuns, "SEARCH r USING INDEX holdfast_runs_by_trigger (job=? AND scheduled_at<?)"},
	{"previousSuccess", previousSuccess, "SEARCH r USING INDEX holdfast_runs_scheduled (job=? AND scheduled_at<?)"},
	{"previousSuccess, triggered", previousSuccess, "SEARCH r USING INDEX holdfast_runs_triggered (job=? AND scheduled_at<?)"},
	{"rememberSuccesses", rememberSuccesses, "SEARCH r USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"pruneRuns, deliveries", pruneRuns, "SEARCH d USING COVERING INDEX holdfast_deliveries_run (run=?)"},
	{"pausesBetween", pausesBetween, "SEARCH holdfast_pauses USING INDEX holdfast_pauses_over (kind=?"},
	{"freeRuns", freeRuns, "SEARCH holdfast_runs USING INDEX holdfast_runs_state (state=?)"},
	{"hasWaiting", hasWaiting, "SEARCH holdfast_runs USING COVERING INDEX holdfast_runs_state (state=?)"},
	{"waitingDue", waitingFiring, "SEARCH holdfast_runs USING INDEX holdfast_runs_state (state=?)"},
	{"runByKey", runByKey, "SEARCH holdfast_runs USING INDEX holdfast_runs_key_taken (job=? AND key=? AND key_actor=?)"},
	{"startedFirings", startedFirings, "SEARCH holdfast_runs USING COVERING INDEX holdfast_runs_scheduled (job=? AND scheduled_at>? AND scheduled_at<?)"},
	{"openScheduledTimes", openScheduledTimes, "SEARCH r USING INDEX holdfast_runs_scheduled (job=? AND scheduled_at>? AND scheduled_at<?)"},
	{"openScheduledTimes, of others", openScheduledTimes, "SEARCH p USING INDEX holdfast_runs_scheduled (job=? AND scheduled_at=?)"},
	{"openScheduledTimes, own", openScheduledTimes, "SEARCH own USING COVERING INDEX holdfast_runs_scheduled (job=? AND scheduled_at=?)"},
	{"firingRuns", firingRuns, "SEARCH r USING INDEX holdfast_runs_scheduled (job=? AND scheduled_at=?)"},
	{"manualRuns", manualRuns, "SEARCH r USING INDEX holdfast_runs_triggered (job=? AND scheduled_at=?)"},
	{"pausedNow", pausedNow, "SEARCH p USING"},
	{"lastRuns", lastRuns, "SEARCH r USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"lastRuns, the last", lastRuns, "SEARCH holdfast_runs USING INDEX holdfast_runs_job (job=?)"},
	{"nearbyGrants, named", nearbyGrants, "SEARCH g USING PRIMARY KEY (resource=?)"},
	{"nearbyGrants, beneath", nearbyGrants, "SEARCH g USING PRIMARY KEY (resource>? AND resource<?)"},
	{"nearbyWants, named", nearbyWants, "SEARCH w USING PRIMARY KEY (resource=?)"},
	{"nearbyWants, beneath", nearbyWants, "SEARCH w USING PRIMARY KEY (resource>? AND resource<?)"},
	{"standingClaims", standingClaims, "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)"},
	{"endClaims", endClaims, "SEARCH holdfast_claims USING INTEGER PRIMARY KEY (rowid=?)"},
	{"endWants", endWants, "SEARCH holdfast_wants USING INDEX holdfast_wants_run (run=?)"},
	{"claimedRuns", claimedRuns, "SEARCH c USING INDEX holdfast_claims_session (session=?)"},
	{"sessionClaims", sessionClaims, "SEARCH holdfast_claims USING INDEX holdfast_claims_session (session=?)"},
	{"intervalsWithin", intervalsWithin, "SEARCH holdfast_runs USING COVERING INDEX holdfast_runs_job (job=? AND created_at>? AND created_at<?)"},
	{"intervalsBefore", intervalsBefore, "SEARCH holdfast_runs USING COVERING INDEX holdfast_runs_job (job=? AND created_at<?)"},
	{"sumWaits", sumWaits, "SEARCH holdfast_wait_history USING INDEX holdfast_wait_history_until (until>? AND until<?)"},
	{"readTallies", readTallies, "SEARCH holdfast_tallies USING PRIMARY KEY (quarter>? AND quarter<?)"},
	{"pruneTallies", pruneTallies, "SEARCH holdfast_tallies USING PRIMARY KEY (quarter<?)"},
	{"pruneWaitHistory", pruneWaitHistory, "SEARCH holdfast_wait_history USING COVERING INDEX holdfast_wait_history_until (until<?)"},
	{"addRunAttempt", addRunAttempt, "SEARCH holdfast_runs USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"},
	{"forgetRunAttempts", forgetRunAttempts, "SEARCH holdfast_run_attempts USING COVERING INDEX sqlite_autoindex_holdfast_run_attempts_1 (run=? AND attempt<?)"},
	{"clearOutput", clearOutput, "SEARCH holdfast_outputs USING INDEX sqlite_autoindex_holdfast_outputs_1 (run=?)"},
	{"pruneRunAttempts", pruneRunAttempts, "SEARCH holdfast_run_attempts USING COVERING INDEX sqlite_autoindex_holdfast_run_attempts_1 (run=?)"},
	{"listRunAttempts", listRunAttempts, "SEARCH holdfast_run_attempts USING INDEX sqlite_autoindex_holdfast_run_attempts_1 (run=?)"},
	{"oneRunAttempt", oneRunAttempt, "SEARCH holdfast_run_attempts USING INDEX sqlite_autoindex_holdfast_run_attempts_1 (run=? AND attempt=?)"},
	{"readOutput", readOutput, "SEARCH holdfast_outputs USING INDEX sqlite_autoindex_holdfast_outputs_1 (run=?)"},
	{"jobStates", fmt.Sprintf(jobStates, "false", "0"), "SEARCH r USING INDEX holdfast_runs_job (job=?)"},
	{"jobStates, waiting", fmt.Sprintf(jobStates, "false", "0"), "SEARCH holdfast_runs USING INDEX holdfast_runs_state (state=?)"},
	{"forgetPast", forgetPast, "SEARCH holdfast_past_sessions USING INDEX holdfast_past_sessions_ended (ended_at<?)"},
	{"countNewest", countNewest, "SCAN holdfast_runs USING INDEX holdfast_runs_created"},
	{"countRuns", countRuns, "SEARCH r USING COVERING INDEX holdfast_runs_job (job=? AND created_at>? AND created_at<?)"},
	{"countUnsuccessful", countUnsuccessful, "SEARCH holdfast_runs USING INDEX holdfast_runs_job_unsuccessful (job=? AND created_at>? AND created_at<?)"},
}

// PutPause inserts a pause, which may have ended.
func (s *Store) PutPause(p storage.Pause) {
	var resumed *int64
	if p.ResumedAt != nil {
		at := micros(*p.ResumedAt)
		resumed = &at
	}
	err := s.write(context.Background(), "pause", func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO holdfast_pauses VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
			p.ID, p.Target.Kind, p.Target.Name, micros(p.At), p.By, p.Reason, resumed, p.ResumedBy)
		return err
	})
	if err != nil {
		panic(err)
	}
}

// PassEnded moves the times of ended sessions into the past.
func (s *Store) PassEnded(d time.Duration) {
	err := s.write(context.Background(), "passing", func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE holdfast_sessions SET started_at = started_at - ?1,
			renewed_at = renewed_at - ?1, expires_at = expires_at - ?1, ended_at = ended_at - ?1
			WHERE ended_at IS NOT NULL`, d.Microseconds())
		if err == nil {
			_, err = tx.Exec(`UPDATE holdfast_past_sessions SET started_at = started_at - ?1,
				expires_at = expires_at - ?1, ended_at = ended_at - ?1`, d.Microseconds())
		}
		return err
	})
	if err != nil {
		panic(err)
	}
}

// Pass moves the times of sessions, cursors and waiting runs into the past.
func (s *Store) Pass(d time.Duration) {
	err := s.write(context.Background(), "passing", func(tx *sql.Tx) error {
		_, err :=
			tx.Exec(
				`UPDATE holdfast_sessions SET started_at = started_at - ?1, renewed_at = CASE WHEN ended_at IS NULL THEN renewed_at ELSE renewed_at - ?1 END`, d.Microseconds())
		if err == nil {
			_, err =
				tx.Exec(
					`UPDATE holdfast_jobs SET checked_until = checked_until - ?1, left_at = left_at - ?1, back_at = back_at - ?1`, d.Microseconds())
		}
		if err == nil {
			_, err = tx.Exec(`UPDATE holdfast_runs SET wait_since = wait_since - ?1,
				reserved_until = CASE reserved_until WHEN 0 THEN 0 ELSE reserved_until - ?1 END`, d.Microseconds())
		}
		return err
	})
	if err != nil {
		panic(err)
	}
}
