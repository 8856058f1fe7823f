package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// rolesSQL returns the statements that make the roles of replicas, jobs and checks.
func rolesSQL(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/postgres/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makeRoles makes the roles of deploy/postgres until the test ends.
func makeRoles(s *harness) {
	s.t.Helper()
	s.exec(rolesSQL(s.t))
	s.exec(rolesSQL(s.t)) // after another migration
	s.t.Cleanup(func() {
		_, err := s.watcher().Exec(context.Background(),
			"DROP OWNED BY holdfast, holdfast_jobs, holdfast_audit; "+
				"DROP ROLE holdfast, holdfast_jobs, holdfast_audit")
		if err != nil {
			s.t.Error(err)
		}
	})
}

// openLimited opens a store with the roles of deploy/postgres.
func openLimited(s *harness) *Store {
	s.t.Helper()
	limited, err := Open(s.t.Context(), Options{URL: as(s, "holdfast"),
		JobsURL: as(s, "holdfast_jobs"), Log: zerolog.Nop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(limited.Close)
	return limited
}

// With the roles of deploy/postgres, a replica works without owning the schema. The fenced
// transaction of a job works with all that it stores, and its statements cannot change the audit
// log, not even after RESET ROLE.
func TestRoleOfJobsCannotChangeAudit(t *testing.T) {
	s := newSingleHarness(t)
	makeRoles(s)
	s.exec("CREATE TABLE public.sales (n int); GRANT ALL ON public.sales TO holdfast_jobs")
	s.exec("INSERT INTO holdfast.audit (id, at, actor, via, proof, client, request_id, replica, " +
		"action, target, reason, key, request) VALUES (gen_random_uuid(), now(), 'anna', " +
		"'page', 'password', '', '', '', 'pause', 'everything', '', '', '')")
	limited := openLimited(s)
	session := s.session(limited, "limited")
	s.register(limited, session, storage.Definition{Name: "job", Hash: "h", Handler: "sql",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Succeeded}}})
	start := request(t, "job", "sales")
	run := func(store *Store, statements ...string) (*jobs.Run, error) {
		start.Run, start.Firing.ScheduledAt = uuid.New(), start.Firing.ScheduledAt.Add(1e9)
		run := s.granted(store, session, start)
		var list []storage.Statement
		for _, sql := range statements {
			list = append(list, storage.Statement{SQL: sql})
		}
		if err := run.Save(7); err != nil {
			t.Fatal(err)
		}
		_, err := store.RunStatements(t.Context(), run, storage.Script{Statements: list})
		if err != nil { // frees the table for the next run
			if err := store.Revoke(t.Context(), run.Token, jobs.Failed, ""); err != nil {
				t.Fatal(err)
			}
		}
		return run, err
	}
	done, err := run(limited, "INSERT INTO sales VALUES (1)")
	if err != nil {
		t.Fatal(err)
	}
	saved, result, deliveries := (&harness{t: t, b: limited}).written("job", done)
	if s.state(done.ID) != "succeeded" || saved != "7" ||
		!strings.Contains(result, "rows_affected") || deliveries != 1 ||
		query[int](s, "SELECT count(*) FROM sales") != 1 {
		t.Errorf("state %s, saved %s, result %s, %d deliveries", s.state(done.ID), saved, result,
			deliveries)
	}
	const forge = "UPDATE holdfast.audit SET actor = 'bob'"
	for _, statements := range [][]string{
		{forge}, {"RESET ROLE", forge}, {"RESET SESSION AUTHORIZATION", forge},
		{"DO $$ BEGIN PERFORM set_config('role', 'none', true); " + forge + "; END $$"},
		{"DELETE FROM holdfast.audit"}, {"TRUNCATE holdfast.audit"}, {"DELETE FROM holdfast.pauses"},
		{"INSERT INTO holdfast.audit (id, at, actor, via, proof, client, request_id, replica, " +
			"action, target, reason, key, request) " +
			"VALUES (gen_random_uuid(), now(), 'bob', 'page', 'password', '', '', '', 'pause', " +
			"'everything', '', '', '')"},
		{"UPDATE holdfast.definitions SET hash = ''"}, {"UPDATE holdfast.runs SET job = 'x'"},
		{"UPDATE holdfast.audit_links SET hash = ''"}, {"DELETE FROM holdfast.audit_links"},
		{"UPDATE holdfast.audit_chain SET anchor_seq = 1"},
		{"DELETE FROM holdfast.audit_unsealed"}, {"DELETE FROM holdfast.sign_outs"},
		{"SELECT params FROM holdfast.runs"}, {"SELECT * FROM holdfast.audit"},
		{"DROP TRIGGER runs_changed ON holdfast.runs"},
	} {
		_, err := run(limited, statements...)
		if err == nil || !strings.Contains(err.Error(), "permission denied") &&
			!strings.Contains(err.Error(), "must be owner") {
			t.Errorf("%q: got %v, want permission denied", statements, err)
		}
	}
	if actor := query[string](s,
		"SELECT string_agg(actor, ',') FROM holdfast.audit"); actor != "anna" {
		t.Errorf("the audit log names %s, want anna", actor)
	}
	if _, err := run(s.a, forge); err != nil {
		t.Errorf("without the role: %v, so this test shows nothing", err)
	}
}

// With the role of replicas, a store reads what pages show. Pages are notified of changes by marks.
func TestRoleOfReplicasReadsForPages(t *testing.T) {
	s := newSingleHarness(t)
	makeRoles(s)
	limited := openLimited(s)
	marks := func() storage.Marks {
		t.Helper()
		marks, err := limited.Marks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return marks
	}
	first := marks() // before a token was drawn
	s.granted(limited, s.session(limited, "limited"), request(t, "job", "sales"))
	if after := marks(); after[storage.TopicLocks] == first[storage.TopicLocks] {
		t.Errorf("marks %v after a start, want another one of locks", after)
	}
	ctx, now := t.Context(), time.Now()
	for name, read := range map[string]func() error{
		"locks":     func() error { _, err := limited.Locks(ctx); return err },
		"replicas":  func() error { _, err := limited.Replicas(ctx); return err },
		"jobs":      func() error { _, err := limited.ListJobs(ctx, storage.JobFilter{}); return err },
		"runs":      func() error { _, err := limited.Runs(ctx, storage.RunFilter{}); return err },
		"resources": func() error { _, err := limited.Resources(ctx); return err },
		"backfills": func() error { _, err := limited.Backfills(ctx, storage.BackfillFilter{}); return err },
		"waits":     func() error { _, err := limited.WaitSummaries(ctx, now.Add(-time.Hour), now); return err },
		"audit log": func() error { _, err := limited.Audit(ctx, storage.AuditFilter{Limit: 1}); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rightsOf are the rights on tables of the schema holdfast that a role has, in the form
// "TABLE RIGHT", and of single columns "TABLE.COLUMN RIGHT".
const rightsOf = `
SELECT coalesce(array_agg(r ORDER BY r), '{}') FROM (
    SELECT c.relname || ' ' || a.privilege_type AS r FROM pg_class c
    CROSS JOIN LATERAL aclexplode(c.relacl) a
    WHERE c.relnamespace = 'holdfast'::regnamespace AND a.grantee = $1::text::regrole
    UNION ALL
    SELECT c.relname || '.' || t.attname || ' ' || a.privilege_type FROM pg_class c
    JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN LATERAL aclexplode(t.attacl) a
    WHERE c.relnamespace = 'holdfast'::regnamespace AND a.grantee = $1::text::regrole
) r`

// The roles for jobs and for checks have exactly the rights that docs/deployment.md lists.
func TestDocumentedRightsOfRoles(t *testing.T) {
	s := newSingleHarness(t)
	makeRoles(s)
	text, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"holdfast_jobs", "holdfast_audit"} {
		documented := regexp.MustCompile("(?s)<!-- rights of " + role +
			" -->\n(.*?)<!-- end -->").FindSubmatch(text)
		if documented == nil {
			t.Fatalf("docs/deployment.md has no rights of %s", role)
		}
		var want []string
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllSubmatch(
			documented[1], -1) {
			for _, right := range strings.Split(string(row[2]), "; ") {
				right, columns, some := strings.Cut(strings.TrimSuffix(right, ")"), " (")
				if !some {
					want = append(want, fmt.Sprintf("%s %s", row[1], right))
				}
				for column := range strings.SplitSeq(columns, ", ") {
					if some {
						want = append(want, fmt.Sprintf("%s.%s %s", row[1], column, right))
					}
				}
			}
		}
		got := query[[]string](s, rightsOf, role)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rights differ (-documented +granted):\n%s", role, diff)
		}
	}
}

// The role for checks reads what a check and an export need, and changes nothing.
func TestRoleOfChecksReadsAudit(t *testing.T) {
	s := newSingleHarness(t)
	makeRoles(s)
	if _, err := s.a.Pause(t.Context(), storage.Action{Actor: "anna", Via: "go"},
		storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.a.SealAudit(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	checker, err := Open(t.Context(), Options{URL: as(s, "holdfast_audit"), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	v, err := storage.VerifyAudit(t.Context(), checker, storage.ChainRules{
		MaxUnsealed: time.Minute})
	if err != nil || v.Problem != "" || v.Checked != 1 {
		t.Errorf("check: %+v, %v", v, err)
	}
	entries, err := checker.Audit(t.Context(), storage.AuditFilter{OldestFirst: true, Limit: 10})
	if err != nil || len(entries) != 1 {
		t.Errorf("export: %+v, %v", entries, err)
	}
	if _, err := checker.Resume(t.Context(), storage.Action{Actor: "anna", Via: "go"},
		storage.Target{Kind: storage.TargetAll}); err == nil ||
		!strings.Contains(err.Error(), "permission denied") {
		t.Errorf("resume: got %v, want permission denied", err)
	}
}

// as returns the URL of the database with a role.
func as(s *harness, role string) string {
	s.t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// A dead replica's transaction has the role of jobs. The sweep of a replica must be able to end it.
func TestSweepEndsATransactionOfTheRoleOfJobs(t *testing.T) {
	s := newSingleHarness(t)
	makeRoles(s)
	s.exec("CREATE TABLE public.sales (n int); GRANT ALL ON public.sales TO holdfast_jobs")
	dead, sweeper := openLimited(s), openLimited(s)
	session := s.session(dead, "dead")
	run := s.granted(dead, session, request(t, "job", "sales"))
	asleep, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- InTx(t.Context(), run, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO sales VALUES (1)")
			close(asleep)
			<-wake
			return err
		})
	}()
	<-asleep
	s.expire(session)
	if swept, err := sweeper.Sweep(t.Context()); err != nil || swept.Ended != 1 {
		t.Errorf("sweep beside the open transaction: %+v, %v", swept, err)
	}
	close(wake)
	if err := <-done; err == nil {
		t.Error("commit of a dead session: got success, want an error")
	}
	swept, err := sweeper.Sweep(t.Context())
	if err != nil || len(swept.Lost) != 1 || swept.Lost[0].ID != run.ID {
		t.Errorf("next sweep: %+v, %v", swept, err)
	}
	if n := query[int](s, "SELECT count(*) FROM sales"); n != 0 {
		t.Errorf("%d rows of a run that was lost", n)
	}
}

// A transaction of a role that the replica may not end does not keep a sweep from the others.
func TestSweepPassesATransactionThatItMayNotEnd(t *testing.T) {
	s := newHarness(t)
	makeRoles(s)
	dead, sweeper := openLimited(s), openLimited(s)
	session := s.session(dead, "dead")
	s.finished(dead, s.granted(dead, session, request(t, "ended", "returns")))
	foreign := s.granted(dead, session, request(t, "foreign", "orders"))
	own := s.granted(dead, session, request(t, "own", "sales"))
	s.holdRows("SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE", foreign.Token)
	tx, err := dead.work.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // its backend was ended
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE",
		own.Token); err != nil {
		t.Fatal(err)
	}
	s.expire(session)
	swept, err := sweeper.Sweep(t.Context())
	if swept.Ended != 1 || codeOf(err) != "42501" {
		t.Errorf("first sweep: got %+v, %v, want one ended transaction and a lack of rights", swept,
			err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.tally_changes"); n != 0 {
		t.Errorf("the sweep left %d changes of tallies", n)
	}
	if swept, _ = sweeper.Sweep(t.Context()); len(swept.Lost) != 1 || swept.Lost[0].ID != own.ID {
		t.Errorf("second sweep: got %+v, want the run of the ended transaction", swept)
	}
}

// A URL for jobs that leads to another database is refused at the start.
func TestRoleOfJobsInAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	store, err := Open(t.Context(), Options{URL: s.url, JobsURL: server.URL("postgres"),
		Log: zerolog.Nop()})
	if err == nil {
		store.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "role of jobs") {
		t.Errorf("got %v, want a refusal", err)
	}
}
