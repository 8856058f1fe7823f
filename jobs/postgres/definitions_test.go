package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// sessionWith opens a session that has a definition of the job.
func (s *harness) sessionWith(store *Store, replica, job, hash string) uuid.UUID {
	s.t.Helper()
	session := s.session(store, replica)
	s.register(store, session, storage.Definition{Name: job, Hash: hash})
	return session
}

func (s *harness) activeDefinitions(job string, version int64) {
	s.t.Helper()
	if now := query[int64](s, "SELECT version FROM holdfast.jobs WHERE name = $1",
		job); now != version {
		s.t.Errorf("version %d of %s is active, want %d", now, job, version)
	}
}

// Each session would count the definition of the other as that of a live session, and no later
// check would correct it.
func TestSessionsThatEndTogetherDoNotKeepDefinitions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	second, third := s.sessionWith(s.a, "second", "job", "h2"),
		s.sessionWith(s.b, "third", "job", "h3")
	resume := s.pause("b", "holdfast.jobs", "UPDATE", "true")
	ended, other := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.b.End(t.Context(), third) }()
	awaitWaiting(s, "b", ended) // is about to activate the definition of the second, which is live
	go func() { other <- s.a.End(t.Context(), second) }()
	awaitWaiting(s, "a", other)
	resume()
	if err := errors.Join(<-ended, <-other); err != nil {
		t.Fatal(err)
	}
	s.activeDefinitions("job", 1)
}

// The registration would still find its definition active, and the ending session would then
// activate the older one.
func TestRegistrationDuringAnEndIsCounted(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	second, again := s.sessionWith(s.b, "second", "job", "h2"), s.session(s.a, "again")
	resume := s.pause("b", "holdfast.jobs", "UPDATE", "true")
	ended, registered := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.b.End(t.Context(), second) }()
	awaitWaiting(s, "b", ended) // is about to activate the definition of the first
	go func() {
		_, err := s.a.Register(t.Context(), again, []storage.Definition{{Name: "job", Hash: "h2"}})
		registered <- err
	}()
	awaitWaiting(s, "a", registered)
	resume()
	if err := errors.Join(<-ended, <-registered); err != nil {
		t.Fatal(err)
	}
	s.activeDefinitions("job", 2)
}

// Two replicas that register a new definition at once get one version.
func TestConcurrentRegistrationsGetOneVersion(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	resume := s.pause("a", "holdfast.session_jobs", "COMMIT", "true")
	one, two := s.session(s.a, "one"), s.session(s.b, "two")
	type registered struct {
		versions map[string]int64
		err      error
	}
	first, second := make(chan registered, 1), make(chan registered, 1)
	register := func(store *Store, session uuid.UUID, hash string, done chan<- registered) {
		versions, err := store.Register(t.Context(), session,
			[]storage.Definition{{Name: "job", Hash: hash}})
		done <- registered{versions, err}
	}
	go register(s.a, one, "h2", first)
	awaitWaiting(s, "a", first)
	go register(s.b, two, "h2", second)
	awaitWaiting(s, "b", second)
	resume()
	for _, done := range []chan registered{first, second} {
		if got := <-done; got.err != nil || got.versions["job"] != 2 {
			t.Errorf("registered %+v, want version 2", got)
		}
	}
}

// Registrations of jobs of one half exclude each other, and those of different halves do not.
func TestHalvesOfTheJobsAreRegisteredConcurrently(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	var inHalf [halves]string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		inHalf[halfOf(name)] = name
	}
	if slices.Contains(inHalf[:], "") {
		t.Fatalf("a half has no job: %q", inHalf)
	}
	one, two := s.session(s.a, "one"), s.session(s.b, "two")
	resume := s.pause("a", "holdfast.session_jobs", "INSERT", "true")
	register := func(store *Store, session uuid.UUID, job string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := store.Register(t.Context(), session,
				[]storage.Definition{{Name: job, Hash: "h1"}})
			done <- err
		}()
		return done
	}
	first := register(s.a, one, inHalf[0])
	awaitWaiting(s, "a", first)
	if err := <-register(s.b, two, inHalf[1]); err != nil {
		t.Errorf("registration of a job of the other half: %v", err)
	}
	second := register(s.b, two, inHalf[0])
	awaitWaiting(s, "b", second)
	resume()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Fatal(err)
	}
	for _, job := range inHalf {
		s.activeDefinitions(job, 1)
	}
}

// A registration adds what is new, and updates what has another description or source. It writes no
// other definition, and it adds no fence.
func TestRegistrationWritesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	register := func(replica string, definitions ...storage.Definition) (uuid.UUID,
		map[string]int64) {
		t.Helper()
		session := s.session(s.a, replica)
		versions, err := s.a.Register(t.Context(), session, definitions)
		if err != nil {
			t.Fatal(err)
		}
		return session, versions
	}
	of := func(job, hash, description string) storage.Definition {
		return storage.Definition{Name: job, Hash: hash, Description: description,
			Resources: request(t, job, job).Requests}
	}
	const row = `SELECT array_agg(format('%s %s %s %s %s', job, hash, version, description, source)
		ORDER BY job, version) FROM holdfast.definitions`
	const writtenBy = `SELECT array_agg(xmin::text ORDER BY job) FROM holdfast.definitions
		WHERE job = 'known' OR (job, version) IN (('changed', 1), ('described', 2))`
	register("one", of("changed", "h1", "A"), of("described", "h1", "A"), of("known", "h1", "A"),
		of("moved", "h1", "A"))
	register("two", of("described", "h2", "B"))
	before := query[[]string](s, writtenBy)
	moved := of("moved", "h1", "A")
	moved.Source = storage.FromStore
	session, versions := register("three", of("changed", "h2", "A"), of("described", "h1", "C"),
		of("known", "h1", "A"), moved, of("new", "h1", "A"))
	wantVersions := map[string]int64{"changed": 2, "described": 1, "known": 1, "moved": 1, "new": 1}
	if !maps.Equal(versions, wantVersions) {
		t.Errorf("registered %v, want %v", versions, wantVersions)
	}
	if had := query[map[string]int64](s, "SELECT jsonb_object_agg(job, version) "+
		"FROM holdfast.session_jobs WHERE session = $1", session); !maps.Equal(had, wantVersions) {
		t.Errorf("the session has %v, want %v", had, wantVersions)
	}
	want := []string{"changed h1 1 A config", "changed h2 2 A config", "described h1 1 C config",
		"described h2 2 B config", "known h1 1 A config", "moved h1 1 A store", "new h1 1 A config"}
	if got := query[[]string](s, row); !slices.Equal(got, want) {
		t.Errorf("definitions %q, want %q", got, want)
	}
	if after := query[[]string](s, writtenBy); !slices.Equal(after, before) {
		t.Errorf("unchanged definitions were written by the transactions %v after %v", after,
			before)
	}
	if n := query[int](s, "SELECT count(*)::int FROM holdfast.fences"); n != 0 {
		t.Errorf("%d fences after registrations, want none", n)
	}
}

// A registration uses versions and places of rows that it has read. So no other transaction may
// delete definitions at the same time.
func TestPruningOfDefinitionsWaitsForARegistration(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	resume := s.pause("a", "holdfast.session_jobs", "COMMIT", "true")
	registered, pruned := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.a.Register(t.Context(), session, []storage.Definition{{Name: "job", Hash: "h"}})
		registered <- err
	}()
	awaitWaiting(s, "a", registered)
	go func() {
		_, err := s.b.pruneDefinitions(t.Context(), time.Hour)
		pruned <- err
	}()
	awaitWaiting(s, "b", pruned)
	resume()
	if err := errors.Join(<-registered, <-pruned); err != nil {
		t.Fatal(err)
	}
}

// TestLargeRegistrationReturnsAllVersions registers more jobs than one transaction takes.
func TestLargeRegistrationReturnsAllVersions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session, all := s.session(s.a, "a"), make([]storage.Definition, 2*storage.MaxBatch+500)
	for i := range all {
		all[i] = storage.Definition{Name: fmt.Sprintf("job %d", i), Hash: "h1"}
	}
	versions, err := s.a.Register(t.Context(), session, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if versions[d.Name] != 1 {
			t.Errorf("%s: got version %d, want 1", d.Name, versions[d.Name])
		}
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.session_jobs"); n != len(all) {
		t.Errorf("got %d jobs of the session, want %d", n, len(all))
	}
}

// A session that ends while it registers leaves no active definition behind.
func TestSessionThatEndsWhileItRegistersIsSettled(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.b, "stays", "job", "h1")
	session := s.session(s.a, "a")
	resume := s.pause("a", "holdfast.session_jobs", "INSERT", "true")
	registered, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.a.Register(t.Context(), session,
			[]storage.Definition{{Name: "job", Hash: "h2"}})
		registered <- err
	}()
	awaitWaiting(s, "a", registered) // its session is live
	go func() { ended <- s.b.End(t.Context(), session) }()
	awaitWaiting(s, "b", ended)
	resume()
	if err := <-registered; !errors.Is(err, storage.ErrSessionLost) {
		t.Errorf("registration for a session that ended meanwhile: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.activeDefinitions("job", 1)
}

// If settling takes too long, End ends the session nevertheless. A sweep settles it later, and the
// session's row stays until then.
func TestSweepSettlesAnEndThatFailed(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	session := s.sessionWith(s.a, "second", "job", "h2")
	s.a.lockTimeout = "50ms"
	busy, err := s.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Rollback(context.Background()) //nolint:errcheck // after the test it does not matter
	if _, err := busy.Exec(t.Context(), lockDefinitions, s.b.cluster.String()); err != nil {
		t.Fatal(err)
	}
	if err := s.a.End(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	s.exec("UPDATE holdfast.sessions SET ended_at = ended_at - interval '2 hours' WHERE id = $1",
		session)
	if _, err := s.a.Sweep(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("sweep while another registers: %v", err)
	}
	s.activeDefinitions("job", 2)
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.activeDefinitions("job", 1)
}

// A registration may have to wait for a misfire check. A retry must succeed.
func TestRegistrationThatTimesOutCanBeRetried(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	session := s.session(s.a, "second")
	busy, err := s.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Rollback(context.Background()) //nolint:errcheck // after the test it does not matter
	if _, err := busy.Exec(t.Context(), lockCursors, []string{"job"}); err != nil {
		t.Fatal(err)
	}
	s.a.lockTimeout = "50ms"
	changed := []storage.Definition{{Name: "job", Hash: "h2"}}
	if _, err := s.a.Register(t.Context(), session, changed); !errors.Is(err,
		storage.ErrUnavailable) {
		t.Errorf("registration while a check holds the job: %v", err)
	}
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.register(s.a, session, changed...)
	s.activeDefinitions("job", 2)
}

// A definition may become active while a misfire check runs. The check must not record misfires of
// the former definition.
func TestMisfiresOfADefinitionThatIsBeingSupersededAreNotRecorded(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.b, "stays", "job", "h1")
	newer := s.session(s.a, "newer")
	resume := s.pause("a", "holdfast.session_jobs", "COMMIT", "true")
	registered, checked := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.a.Register(t.Context(), newer, []storage.Definition{{Name: "job", Hash: "h2"}})
		registered <- err
	}()
	awaitWaiting(s, "a", registered) // has activated it, not committed
	until := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	var cursors map[string]time.Time
	go func() {
		var err error
		cursors, err = s.b.CheckMisfires(t.Context(),
			[]storage.MisfireCheck{{Job: "job", Version: 1, ScheduledAt: until, Until: until}},
			func(job string, _ storage.Cursor) []storage.Misfired {
				return []storage.Misfired{{Firing: storage.Firing{Job: job, ScheduledAt: until},
					Run: uuid.New(), State: jobs.Missed, Reason: reasons.Misfire}}
			})
		checked <- err
	}()
	awaitWaiting(s, "b", checked)
	resume()
	if err := errors.Join(<-registered, <-checked); err != nil {
		t.Fatal(err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.runs"); n != 0 || len(cursors) != 0 {
		t.Errorf("%d runs recorded, cursors %v: by a definition that is not in force", n, cursors)
	}
}

// Rows of jobs are locked by name, regardless of their physical order and of the order of the
// request.
func TestRegistrationAndMisfireCheckDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	names := []string{"d", "b", "c", "a"}
	one, two := s.session(s.a, "one"), s.session(s.b, "two")
	for _, name := range names {
		s.register(s.a, one, storage.Definition{Name: name, Hash: "h1"})
	}
	resume := s.pause("a", "holdfast.jobs", "UPDATE", "NEW.name = 'b'")
	until := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	var checks []storage.MisfireCheck
	var changed []storage.Definition
	for _, name := range names {
		checks = append(checks, storage.MisfireCheck{Job: name, Version: 1, ScheduledAt: until,
			Until: until})
		changed = append(changed, storage.Definition{Name: name, Hash: "h2"})
	}
	checked, registered := make(chan error, 1), make(chan error, 1)
	go func() {
		cursors, err := s.a.CheckMisfires(t.Context(), checks,
			func(string, storage.Cursor) []storage.Misfired { return nil })
		if err == nil && len(cursors) != len(names) {
			err = fmt.Errorf("cursors %v", cursors)
		}
		checked <- err
	}()
	awaitWaiting(s, "a", checked) // has moved some cursors
	go func() {
		_, err := s.b.Register(t.Context(), two, changed)
		registered <- err
	}()
	awaitWaiting(s, "b", registered)
	resume()
	if err := errors.Join(<-checked, <-registered); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s.activeDefinitions(name, 2)
	}
}

// A misfire check that is paused while it computes must not block others.
func TestMisfireCheckLocksNoJobWhileItSearches(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.sessionWith(s.a, "stays", "job", "h1")
	newer := s.session(s.b, "newer")
	s.b.lockTimeout = "50ms"
	until := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	_, err := s.a.CheckMisfires(t.Context(),
		[]storage.MisfireCheck{{Job: "job", Version: 1, ScheduledAt: until, Until: until}},
		func(string, storage.Cursor) []storage.Misfired {
			s.register(s.b, newer, storage.Definition{Name: "job", Hash: "h2"})
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	s.activeDefinitions("job", 2)
}

// A sweep without work must not wait for registrations.
func TestSweepWithNothingToSettleDoesNotWaitForRegistrations(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.sessionWith(s.a, "ends", "job", "h1")
	if err := s.a.End(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), s.b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), lockDefinitions, s.b.cluster.String()); err != nil {
			return err
		}
		s.a.lockTimeout = "50ms"
		_, err := s.a.Sweep(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
