package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// TestPlansLookUpByKey checks the plans of the statements of the hot path when the planner knows
// the tables least: they are new, or were small or empty at their last analysis. A generic plan
// would remain in use while the tables grow.
func TestPlansLookUpByKey(t *testing.T) {
	t.Parallel()
	const planInJob = beginOwn
	const planRefused = "SET LOCAL holdfast.refused = '{}';"
	// A plan for one try knows that deliveries_failed has the delivery.
	tried := strings.NewReplacer("$1", "'00000000-0000-0000-0000-000000000000'", "$2", "1",
		"$3", "$1", "$4", "$2", "$5", "$3", "$6", "$4")
	statements := []struct{ name, settings, sql string }{
		{"holdSession", beginByHash, holdSession}, {"addFences", beginByHash, addFences},
		{"insertRuns", beginByHash, insertRuns},
		{"lockFences", beginByHash, lockFences},
		{"insertStarts", beginByHash, insertStarts},
		{"lockWaitingRuns", beginByHash, lockWaitingRuns},
		{"startNew", beginByHash, startNew}, {"startNewBeside", beginByHash, startNewBeside},
		{"startPlain", beginByHash, startPlain},
		{"startPlainBeside", beginByHash, startPlainBeside},
		{"raiseOwnFloors", beginByHash, raiseOwnFloors}, {"admit", beginByHash, admit},
		{"startOutcomes", beginByHash, startOutcomes},
		{"recordNew", beginByHash, recordNew},
		{"applyNotes", beginByHash, applyNotes}, {"noteOutcomes", beginByHash, noteOutcomes},
		{"lockClaims", beginByHash, lockClaims}, {"finishRuns", beginByHash, finishRuns},
		{"finishAttempts", beginByHash, finishAttempts},
		{"finishOutcomes", beginByHash, finishOutcomes},
		{"addRunAttempts", beginByHash, addRunAttempts},
		{"listRunAttempts", beginPipeline, listRunAttempts},
		{"oneRunAttempt", beginPipeline, oneRunAttempt},
		{"saveEnded", beginByHash, saveEnded}, {"saveOwn", planInJob, saveOwn},
		{"addSubscriptions", beginPipeline, addSubscriptions},
		{"takeDeliveries", beginPipeline, takeDeliveries},
		{"deliveredRuns", beginPipeline, deliveredRuns},
		{"endDelivery", beginPipeline, tried.Replace(endDelivery)},
		{"deferDelivery", beginPipeline, tried.Replace(deferDelivery)},
		{"notifyUnlessAdopted", beginPipeline, notifyUnlessAdopted},
		{"expireDisconnected", beginPipeline, expireDisconnected},
		{"showBackend", beginPipeline, showBackend},
		{"sessionClaims", beginPipeline, sessionClaims},
		{"raiseClaims", beginPipeline, raiseClaims},
		{"begunFirings", beginPipeline, begunFirings},
		{"claimsOfRuns", beginPipeline, claimsOfRuns},
		{"startedFirings", beginPipeline, startedFirings}, {"recoverRuns", beginByHash, recoverRuns},
		{"registerJobs", beginPipeline, registerJobs},
		{"activateRegistered", beginPipeline, activateRegistered},
		{"settleSession", beginPipeline, settleSession},
		{"pausesOf", beginPipeline, pausesOf}, {"readCursors", beginPipeline, readCursors},
		{"lockCursors", beginPipeline, lockCursors},
		{"insertMisfires", beginPipeline, insertMisfires},
		{"dependentCursors", beginPipeline, dependentCursors},
		{"openScheduledTimes", beginPipeline, openScheduledTimes},
		{"firingJob", beginPipeline, firingJob}, {"firingRuns", beginPipeline, firingRuns},
		{"manualRuns", beginPipeline, manualRuns},
		{"runsBetween", beginPipeline, runsBetween},
		{"moveCursors", beginPipeline, moveCursors},
		{"readClaim", planInJob, readClaim}, {"endOwnRun", planInJob, endOwnRun},
		{"lockSharedClaims", planInJob, lockSharedClaims},
		{"endSharedRuns", planInJob, endSharedRuns},
		{"lockedByJobs", beginByHash, lockedByJobs}, {"triggerRuns", beginByHash, triggerRuns},
		{"findBlockers", beginByHash, findBlockers},
		{"holdLiving", beginByHash, holdLiving}, {"refuse", beginByHash, refuse},
		{"lockWaits", beginByHash, lockWaits},
		{"lockWantedAlone", planRefused + beginByHash, lockWantedAlone},
		{"lockWantedShare", planRefused + beginByHash, lockWantedShare},
		{"grant", planRefused + beginByHash, grant}, {"grantOutcomes", beginByHash, grantOutcomes},
		{"requireSession", beginByHash, requireSession},
		{"takePlaces", beginByHash, takePlaces}, {"releaseClaims", beginPipeline, releaseClaims},
		{"withdrawWaits", beginPipeline, withdrawWaits},
		{"withdrawClaims", beginPipeline, withdrawClaims},
		{"sessionPlaces", beginPipeline, sessionPlaces}, {"endWaits", beginPipeline, endWaits},
		{"endClaims", beginPipeline, endClaims},
		{"cancelWaiting", beginPipeline, cancelWaiting},
		{"forceRelease", beginPipeline, forceRelease},
		{"loseWaiting", beginPipeline, loseWaiting},
		{"endSweptWaits", beginPipeline, endSweptWaits},
		{"releaseSwept", beginPipeline, releaseSwept},
		{"loseRuns", beginPipeline, loseRuns}, {"stuckClaims", beginPipeline, stuckClaims},
		{"endSwept", beginPipeline, endSwept},
		{"forgetFences", beginPipeline, forgetFences},
		{"pruneRuns", beginPipeline, pruneRuns}, {"pruneAudit", beginPipeline, pruneAudit},
		{"previousSuccess", beginPipeline, previousSuccess},
		{"unsealedEntries", beginPipeline, unsealedEntries}, {"addLinks", beginPipeline, addLinks},
		{"linkedEntries", beginPipeline, linkedEntries}, {"dropLinked", beginPipeline, dropLinked},
		{"pruneWaitHistory", beginPipeline, pruneWaitHistory},
		{"pruneTallies", beginPipeline, pruneTallies},
		{"countEnded", beginPipeline, countEnded},
		{"stopBackfill", beginPipeline, stopBackfill},
		{"addBackfillRuns", beginPipeline, addBackfillRuns},
		{"completeBackfill", beginPipeline, completeBackfill},
		{"waitingOfBackfill", beginPipeline, waitingOfBackfill},
		{"takenTimes", beginPipeline, takenTimes},
	}
	const history = `
INSERT INTO holdfast.jobs SELECT 'job ' || n, 1, now(), now() FROM generate_series(1, 100) n;
INSERT INTO holdfast.definitions SELECT 'job ' || n, 'h', 1, '', '', '', '[]', false, ''
    FROM generate_series(1, 100) n;
INSERT INTO holdfast.session_jobs SELECT gen_random_uuid(), 'job ' || n, 1
    FROM generate_series(1, 100) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, created_at)
    SELECT gen_random_uuid(), 'job ' || n, now(), 1, 'succeeded', now()
        FROM generate_series(1, 100) n;`
	const locks = history + `
INSERT INTO holdfast.sessions (id, replica, version, ttl, started_at, renewed_at, expires_at, locks)
    SELECT gen_random_uuid(), 'r' || n, '', '15s', now(), now(), now() + interval '1 hour', true
        FROM generate_series(1, 100) n;
INSERT INTO holdfast.claims (token, run, session, granted_at, owner)
    SELECT n, gen_random_uuid(), s.id, now(), '{}' FROM generate_series(1, 20000) n
        JOIN holdfast.sessions s ON s.replica = 'r' || (n % 100 + 1);
INSERT INTO holdfast.grants SELECT 'path:' || n || '/' || i, n, 'exclusive', 0
    FROM generate_series(1, 20000) n, generate_series(1, 2) i;
INSERT INTO holdfast.waits (run, session, since, owner)
    SELECT gen_random_uuid(), s.id, now(), '{}' FROM generate_series(1, 10000) n
        JOIN holdfast.sessions s ON s.replica = 'r' || (n % 100 + 1);
INSERT INTO holdfast.wants SELECT 'path:' || row_number() OVER (), since, run, 'exclusive', 0
    FROM holdfast.waits;
INSERT INTO holdfast.fences SELECT 'path:' || n FROM generate_series(1, 30000) n`
	// rows of other tables that come and go
	const others = `;
INSERT INTO holdfast.session_jobs SELECT gen_random_uuid(), 'job ' || n, 1
    FROM generate_series(1, 20000) n;
INSERT INTO holdfast.deliveries (id, webhook, run, state, created_at, next_at, tries)
    SELECT gen_random_uuid(), 'w' || n % 3, gen_random_uuid(), 'failed', now(), now(), n % 2
        FROM generate_series(1, 20000) n`
	const mostGone = others + `;
DELETE FROM holdfast.session_jobs WHERE job > 'job 2'; DELETE FROM holdfast.deliveries;
DELETE FROM holdfast.claims WHERE token > 5; DELETE FROM holdfast.grants WHERE token > 5;
DELETE FROM holdfast.wants WHERE resource > 'path:10'; DELETE FROM holdfast.waits w
    WHERE NOT EXISTS (SELECT FROM holdfast.wants o WHERE o.run = w.run)`
	const allGone = others + `;
DELETE FROM holdfast.session_jobs; DELETE FROM holdfast.deliveries;
DELETE FROM holdfast.claims; DELETE FROM holdfast.grants; DELETE FROM holdfast.wants;
DELETE FROM holdfast.waits`
	for _, known := range []struct {
		name, prepare, rebuilt string
		soak                   bool // only then
	}{
		{"new tables", "", "", false},
		{"empty tables, analyzed", "SELECT", "", true},
		{"one job, analyzed", strings.ReplaceAll(history, "100)", "1)"), "", true},
		{"few jobs, analyzed", strings.ReplaceAll(history, "100)", "20)"), "", true},
		{"a small history", history, "", true},
		{"many locks", locks, "", false},
		// Their rows come and go. The last analysis found few rows, and the indexes have any sizes.
		{"few locks remain", locks + mostGone, "", true},
		{"few locks remain, small unique indexes", locks + mostGone, "indisunique", false},
		{"few locks remain, small other indexes", locks + mostGone, "NOT indisunique", true},
		{"no locks remain, small unique indexes", locks + allGone, "indisunique", true},
		{"no locks remain, small other indexes", locks + allGone, "NOT indisunique", false},
	} {
		t.Run(known.name, func(t *testing.T) {
			if known.soak {
				soak.Only(t)
			}
			s := newHarness(t)
			if known.prepare != "" {
				s.exec(known.prepare)
				s.vacuum()
			}
			if known.rebuilt != "" {
				s.rebuildIndexes(known.rebuilt)
				s.vacuum()
			}
			leading := s.leadingColumns()
			for _, statement := range statements {
				t.Run(statement.name, func(t *testing.T) {
					checkPlan(t, s.plan(statement.settings, statement.sql), leading)
				})
			}
			t.Run("add_deliveries", func(t *testing.T) {
				checkPlan(t, s.plan(beginByHash, addDeliveries(s)), leading)
			})
		})
	}
}

// addDeliveries returns the statement of the function add_deliveries, with arguments in place of
// its parameters.
func addDeliveries(s *harness) string {
	body := query[string](s, "SELECT prosrc FROM pg_proc WHERE proname = 'add_deliveries'")
	from, until := strings.Index(body, "INSERT"), strings.Index(body, "RETURN 0;")
	if from < 0 || until < from {
		s.t.Fatalf("no insert in %s", body)
	}
	return strings.NewReplacer("run_ids", "$1::uuid[]", "job_names", "$2::text[]", "run_states",
		"$3::text[]", ";", "").Replace(body[from:until])
}

// Each job has few definitions at first, so the planner sees no difference between the indexes, or
// between a join and the fetch of single rows.
func TestRegistrationLooksUpEachDefinitionOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 20, 1000} {
		t.Run(fmt.Sprintf("%d definitions at the last analysis", n), func(t *testing.T) {
			s := newHarness(t)
			s.exec(fmt.Sprintf(`INSERT INTO holdfast.definitions
				SELECT 'job ' || n, 'h', 1, '', '', '', '[]', false, ''
				FROM generate_series(1, %d) n`, n))
			s.vacuum()
			plan := s.plan(beginPipeline, registerJobs)
			for _, part := range []string{
				`using definitions_pkey on definitions o .*\n *Index Cond: .*\(hash = `,
				`Tid Scan on definitions o_?\d* .*\n *TID Cond: \(ctid = g.place\)`,
			} {
				if !regexp.MustCompile(part).MatchString(plan) {
					t.Errorf("no match of %s in\n%s", part, plan)
				}
			}
		})
	}
}

// A job may have many runs that were triggered or are of a backfill. A plan made for new or small
// tables must not read all of them for one key.
func TestRunsAreLookedUpByKey(t *testing.T) {
	t.Parallel()
	const small = `
INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at)
    SELECT gen_random_uuid(), 'job', now() + n * interval '1s', 'key ' || n, 'succeeded', now()
    FROM generate_series(1, 20) n`
	byKey := regexp.MustCompile(`Index Cond: .*\bkey = `)
	filtered := regexp.MustCompile(`Filter: .*\bkey = [(uq$]`)
	for name, prepare := range map[string]string{"new tables": "",
		"empty tables, analyzed": "SELECT", "a small history": small,
		"no keys": strings.ReplaceAll(small, "'key ' || n", "''")} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			if prepare != "" {
				s.exec(prepare)
				s.vacuum()
			}
			for _, statement := range []struct{ name, settings, sql string }{
				{"countEnded", beginPipeline, countEnded},
				{"openBackfills", beginPipeline, openBackfills},
				{"waitingOfBackfill", beginPipeline, waitingOfBackfill},
				{"triggerRuns", beginByHash, triggerRuns},
				{"startOutcomes", beginByHash, startOutcomes},
				{"runByKey", beginPipeline, runByKey}, {"firstByKey", beginPipeline, firstByKey},
				{"runsOfKey", beginPipeline, runsOfKey},
			} {
				t.Run(statement.name, func(t *testing.T) {
					plan := s.plan(statement.settings, statement.sql)
					if !byKey.MatchString(plan) || filtered.MatchString(plan) {
						t.Errorf("not by key:\n%s", plan)
					}
				})
			}
		})
	}
}

// An endpoint that does not answer has many deliveries for a later time. A plan must not read them.
func TestDeliveriesForLaterAreNotRead(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"new tables": "", "many deliveries": `
INSERT INTO holdfast.deliveries (id, webhook, run, state, created_at, next_at, tries)
    SELECT gen_random_uuid(), 'w', gen_random_uuid(), 'failed', now(), now() + interval '1 h', 1
        FROM generate_series(1, 20000) n`} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			if prepare != "" {
				s.exec(prepare)
				s.vacuum()
			}
			plan := s.plan(beginPipeline, takeDeliveries)
			bounded := `Index Cond: \(\(webhook = \$1\) AND \(next_at <= \$\d+\)\)`
			if !regexp.MustCompile(bounded).MatchString(plan) {
				t.Errorf("no match of %s in\n%s", bounded, plan)
			}
		})
	}
}

// There are few sessions, but each has one row for every job.
func TestSweepsLookUpTheJobsOfASession(t *testing.T) {
	t.Parallel()
	for name, sessions := range map[string]string{
		"few jobs of many sessions": "SELECT gen_random_uuid(), 'job ' || n, 1 " +
			"FROM generate_series(1, 1000) n",
		"many jobs of few sessions": "SELECT id, 'job ' || n, 1 FROM (SELECT id " +
			"FROM holdfast.sessions LIMIT 3) s, generate_series(1, 10000) n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.exec(`
INSERT INTO holdfast.sessions SELECT gen_random_uuid(), 'a', 'test', '10s', t, t, t, t
    FROM generate_series(1, 1000), clock_timestamp() t;
INSERT INTO holdfast.session_jobs ` + sessions)
			s.vacuum()
			for name, sql := range map[string]string{"unsettled": unsettled,
				"forgetSessions": forgetSessions} {
				plan := s.plan(beginPipeline, sql)
				_, look, _ := strings.Cut(plan, "using session_jobs_pkey on session_jobs c")
				if _, look, _ = strings.Cut(look, "\n"); !strings.HasPrefix(
					strings.TrimSpace(look), "Index Cond: (session >= s.id)") {
					t.Errorf("%s does not look up each session's:\n%s", name, plan)
				}
			}
		})
	}
}

// Few runs are cancelled or watched. A session may have had thousands of claims since the last
// vacuum, and an index on the session leads to all of them.
func TestControlStateLooksUpTheClaimsOfFewRuns(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"new tables": "", "many claims": `
INSERT INTO holdfast.claims SELECT n, gen_random_uuid(), id, now()
    FROM generate_series(1, 10000) n, gen_random_uuid() id;
VACUUM ANALYZE`} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			for statement := range strings.SplitSeq(prepare, ";") {
				s.exec(statement)
			}
			plan := s.plan(beginPipeline, readControlState)
			looks := regexp.MustCompile(
				`using claims_run_key on claims .*\n *Index Cond: \(run = [cw]\.run\)`)
			if n := len(looks.FindAllString(plan, -1)); n != 2 {
				t.Errorf("%d of 2 looks at claims are by run:\n%s", n, plan)
			}
		})
	}
}

// There are few waits and sessions, so a plan may scan them, but only once and not for each row of
// another table. In the history and in the jobs of sessions it may only look up known rows.
func TestUpkeepReadsWaitsAndSessionsOnce(t *testing.T) {
	t.Parallel()
	const much = `
INSERT INTO holdfast.jobs SELECT 'job ' || n, 1, now(), now() FROM generate_series(1, 1000) n;
INSERT INTO holdfast.sessions SELECT gen_random_uuid(), 'r' || n, 'test', '10s', t, t, t,
    CASE WHEN n > 20 THEN t END FROM generate_series(1, 1000) n, clock_timestamp() t;
INSERT INTO holdfast.session_jobs SELECT s.id, j.name, 1 FROM holdfast.sessions s, holdfast.jobs j
    WHERE s.ended_at IS NULL;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
    SELECT gen_random_uuid(), 'job ' || n % 1000, now() - n * interval '1 s',
        CASE WHEN n <= 500 THEN 'waiting' ELSE 'succeeded' END, now()
            FROM generate_series(1, 20000) n;
INSERT INTO holdfast.waits (run, since) SELECT id, now() FROM holdfast.runs WHERE state = 'waiting'`
	for _, known := range []struct{ name, prepare string }{{"new tables", ""},
		{"a long history", much}} {
		t.Run(known.name, func(t *testing.T) {
			s := newHarness(t)
			if known.prepare != "" {
				s.history(known.prepare)
				s.vacuum()
			}
			leading := s.leadingColumns()
			for _, statement := range []struct{ name, sql string }{
				{"endLeft", endLeft}, {"cancelLeft", cancelLeft},
				{"waitingFirings", waitingFirings}, {"spans", spans},
				{"markExpired", markExpired}, {"forgetSessions", forgetSessions},
				{"connectedSessions", connectedSessions}, {"hasAdoptable", hasAdoptable},
			} {
				t.Run(statement.name, func(t *testing.T) {
					checkUpkeep(t, s.plan(beginPipeline, statement.sql), leading)
				})
			}
		})
	}
}

var (
	wholeScan = regexp.MustCompile(
		`(?:Seq Scan on|Index (?:Only )?Scan(?: Backward)? using \w+ on) (\w+) ?(\w*)`)
	lookedUp = []string{"runs", "session_jobs", "wants", "claims", "jobs", "definitions"}
)

// checkUpkeep fails the test if a plan scans a table that grows, or scans another table once per
// row.
func checkUpkeep(t *testing.T, plan string, leading map[string]string) {
	t.Helper()
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		scan := wholeScan.FindStringSubmatch(line)
		if scan == nil {
			continue
		}
		condition, index := "", indexScan.FindStringSubmatch(line)
		if i+1 < len(lines) {
			_, condition, _ = strings.Cut(lines[i+1], "Index Cond: ")
		}
		byKey := index != nil && leads(leading[index[1]+index[2]], condition)
		removed := index != nil && index[1] == "jobs_removed" // has the removed jobs alone
		switch {
		case byKey || removed:
		case slices.Contains(lookedUp, scan[1]):
			t.Errorf("%s is read whole in\n%s", scan[1], plan)
		case forEach(lines[:i], line):
			t.Errorf("%s is read for each row in\n%s", scan[0], plan)
		}
	}
}

// forEach reports whether the step belongs to a sub-plan, which runs again for each row. An
// InitPlan runs once.
func forEach(before []string, line string) bool {
	depth := len(line) - len(strings.TrimLeft(line, " "))
	for _, above := range slices.Backward(before) {
		indent := len(above) - len(strings.TrimLeft(above, " "))
		if indent >= depth {
			continue
		}
		if depth = indent; strings.HasPrefix(strings.TrimSpace(above), "SubPlan") {
			return true
		}
	}
	return false
}

// leads reports whether a condition contains a column or an expression.
func leads(column, condition string) bool {
	return column != "" && regexp.MustCompile(`(?:^|\W)`+regexp.QuoteMeta(column)+`(?:\W|$)`).
		MatchString(condition)
}

// leadingColumns returns the first column, or the expression in its place, of each index.
func (s *harness) leadingColumns() map[string]string {
	s.t.Helper()
	return query[map[string]string](s, `
SELECT jsonb_object_agg(c.relname, pg_get_indexdef(c.oid, 1, true)) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'holdfast'::regnamespace`)
}

// rebuildIndexes makes those indexes as small as their rows permit that meet a condition on
// pg_index.
func (s *harness) rebuildIndexes(condition string) {
	s.t.Helper()
	for _, index := range query[[]string](s, `
SELECT array_agg(indexrelid::regclass::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'holdfast'::regnamespace AND `+condition) {
		s.exec("REINDEX INDEX " + index)
	}
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// plan returns PostgreSQL's plan of the statement under the settings.
func (s *harness) plan(settings, sql string) string {
	s.t.Helper()
	arguments := 0
	for _, match := range parameter.FindAllStringSubmatch(sql, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			s.t.Fatal(err)
		}
		arguments = max(arguments, n)
	}
	tx, err := s.watcher().Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer tx.Rollback(s.t.Context()) //nolint:errcheck // nothing was written
	if _, err := tx.Exec(s.t.Context(), strings.ReplaceAll(settings, "$1", "'1s'")); err != nil {
		s.t.Fatal(err)
	}
	if _, err := tx.Exec(s.t.Context(), "PREPARE planned AS "+sql); err != nil {
		s.t.Fatal(err)
	}
	defer s.exec("DEALLOCATE planned")
	execute := "EXECUTE planned"
	if arguments > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", arguments), ", ") + ")"
	}
	rows, err := tx.Query(s.t.Context(), "EXPLAIN "+execute)
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var (
	tableScan = regexp.MustCompile(`Seq Scan on \w+`)
	indexScan = regexp.MustCompile(
		`Index (?:Only )?Scan(?: Backward)? using (\w+) on|Bitmap Index Scan on (\w+)`)
)

// checkPlan fails the test if a plan reads more of a table than the rows of its keys: a whole
// table, or an index without a condition on its first column.
func checkPlan(t *testing.T, plan string, leading map[string]string) {
	t.Helper()
	lines, lookUps := strings.Split(plan, "\n"), 0
	for i, line := range lines {
		if scan := tableScan.FindString(line); scan != "" {
			t.Errorf("%s in\n%s", scan, plan)
		}
		scan := indexScan.FindStringSubmatch(line)
		if scan == nil {
			continue
		}
		lookUps++
		condition := ""
		if i+1 < len(lines) {
			_, condition, _ = strings.Cut(lines[i+1], "Index Cond: ")
		}
		if !leads(leading[scan[1]+scan[2]], condition) {
			t.Errorf("%s with the condition %q in\n%s", scan[0], condition, plan)
		}
	}
	if lookUps == 0 {
		t.Errorf("no look-up in\n%s", plan)
	}
}
