package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// skipOf returns the note of a new firing that is skipped.
func skipOf(r storage.StartRequest) storage.Note {
	return storage.Note{Run: r.Run, Firing: r.Firing, New: true, State: jobs.Skipped,
		Reason: reasons.LockHeld, WaitSince: r.WaitSince}
}

// noted is the answer to a batch of notes.
type noted struct {
	stands []bool
	err    error
}

func (s *harness) note(store *Store, session uuid.UUID, notes ...storage.Note) <-chan noted {
	done := make(chan noted, 1)
	go func() {
		stands, err := store.Note(s.t.Context(), session, notes)
		done <- noted{stands, err}
	}()
	return done
}

// expectNoted fails the test unless the store has answered that.
func (s *harness) expectNoted(done <-chan noted, want ...bool) {
	s.t.Helper()
	got := <-done
	if got.err != nil || len(got.stands) != len(want) {
		s.t.Fatalf("notes: %v, %v, want %v", got.stands, got.err, want)
	}
	for i, stands := range got.stands {
		if stands != want[i] {
			s.t.Errorf("note %d stands: %t, want %t", i, stands, want[i])
		}
	}
}

// The replica of a firing waits for a lock for so long that another replica decides on the firing
// by the misfire policy. The scheduled time has one record: the first one.
func TestSkipAndMisfireOfOneFiringLeaveOneRecord(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]string{"the skip": "skipped", "the misfire": "missed"} {
		t.Run(first+" is first", func(t *testing.T) {
			s := newHarness(t)
			s.sessionWith(s.b, "stays", "job", "h1")
			session := s.session(s.a, "a")
			firing := request(t, "job")
			at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
			firing.Firing.ScheduledAt = at
			check := func(done chan<- error) {
				_, err := s.b.CheckMisfires(t.Context(), []storage.MisfireCheck{{Job: "job",
					Version: 1, ScheduledAt: at, Until: at}},
					func(job string, _ storage.Cursor) []storage.Misfired {
						return []storage.Misfired{{Firing: firing.Firing, Run: uuid.New(),
							State: jobs.Missed, Reason: reasons.Misfire}}
					})
				done <- err
			}
			checked := make(chan error, 1)
			if want == "skipped" {
				resume := s.pause("a", "holdfast.runs", "COMMIT", "true")
				skipped := s.note(s.a, session, skipOf(firing))
				awaitWaiting(s, "a", skipped) // inserted, not committed
				go check(checked)
				awaitWaiting(s, "b", checked) // at the key of the firing
				resume()
				s.expectNoted(skipped, true)
			} else {
				resume := s.pause("b", "holdfast.runs", "COMMIT", "true")
				go check(checked)
				awaitWaiting(s, "b", checked)
				skipped := s.note(s.a, session, skipOf(firing))
				awaitWaiting(s, "a", skipped)
				resume()
				s.expectNoted(skipped, false)
			}
			if err := <-checked; err != nil {
				t.Fatal(err)
			}
			if got := query[string](s, "SELECT string_agg(state, ' ') FROM holdfast.runs"); got !=
				want {
				t.Errorf("the firing is recorded as %q, want %q", got, want)
			}
			if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 {
				t.Errorf("%d waits are left", n)
			}
		})
	}
}

// A replica that is killed between the insert and the reply has recorded the firing, or has not.
// Then the misfire check finds it. Nothing is left for other replicas to adopt.
func TestSkipOfASessionThatExpiresWithinItsNote(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session, successor := s.session(s.a, "a"), s.session(s.b, "b")
	resume := s.pause("a", "holdfast.runs", "INSERT", "true")
	late := request(t, "late", "orders")
	done := s.note(s.a, session, skipOf(late))
	awaitWaiting(s, "a", done) // it has found its session live
	s.expire(session)
	resume()
	s.expectNoted(done, true)
	s.expect(s.start(s.b, successor, again(request(t, "other", "orders"))), storage.StartGranted)
	if got := s.state(late.Run); got != "skipped" {
		t.Errorf("the run is %s", got)
	}
	next := <-s.note(s.a, session, skipOf(request(t, "next")))
	if !errors.Is(next.err, storage.ErrSessionLost) {
		t.Errorf("note of a lost session: %v", next.err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 {
		t.Errorf("%d waits are left", n)
	}
}

// Replicas without memcached may skip the same firings, in their own orders.
func TestReplicasSkipTheSameFiringsInOneOrder(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	resume := s.pause("a", "holdfast.runs", "INSERT", "NEW.job = 'two'")
	first := s.note(s.a, s.session(s.a, "a"), skipOf(request(t, "one")), skipOf(request(t, "two")))
	awaitWaiting(s, "a", first) // has inserted one, not two
	second := s.note(s.b, s.session(s.b, "b"), skipOf(request(t, "two")), skipOf(request(t, "one")))
	awaitWaiting(s, "b", second)
	resume()
	s.expectNoted(first, true, true)
	s.expectNoted(second, false, false)
}

// One replica starts a firing that another one skips.
func TestStartAndSkipOfOneFiring(t *testing.T) {
	t.Parallel()
	t.Run("the skip is first", func(t *testing.T) {
		eachWay(t, func(t *testing.T, ask way) {
			s := newHarness(t)
			resume := s.pause("a", "holdfast.runs", "COMMIT", "true")
			skipped := s.note(s.a, s.session(s.a, "a"), skipOf(request(t, "job", "orders")))
			awaitWaiting(s, "a", skipped)
			done := s.start(s.b, s.session(s.b, "b"), ask(request(t, "job", "orders")))
			awaitWaiting(s, "b", done)
			resume()
			s.expectNoted(skipped, true)
			s.expect(done, storage.StartDuplicate)
		})
	})
	t.Run("the start is first", func(t *testing.T) {
		eachWay(t, func(t *testing.T, ask way) {
			s := newHarness(t)
			resume := s.pause("b", "holdfast.claims", "COMMIT", "true")
			done := s.start(s.b, s.session(s.b, "b"), ask(request(t, "job", "orders")))
			awaitWaiting(s, "b", done)
			skipped := s.note(s.a, s.session(s.a, "a"), skipOf(request(t, "job", "orders")))
			awaitWaiting(s, "a", skipped)
			resume()
			s.expect(done, storage.StartGranted)
			s.expectNoted(skipped, false)
		})
	})
}

// A skip inserts one row. It is never updated, so no dead row is left.
func TestSkipOfANewFiringIsOneRow(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.exec("CREATE TABLE public.written (n int)")
	s.exec(`CREATE FUNCTION public.count_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.written VALUES (1); RETURN NEW; END $$`)
	s.exec("CREATE TRIGGER counted BEFORE INSERT OR UPDATE ON holdfast.runs FOR EACH ROW " +
		"EXECUTE FUNCTION public.count_write()")
	s.expectNoted(s.note(s.a, session, skipOf(request(t, "one", "orders")),
		skipOf(request(t, "two", "orders"))), true, true)
	if n := query[int](s, "SELECT count(*) FROM public.written"); n != 2 {
		t.Errorf("%d rows of runs were written for two skips, want 2", n)
	}
}
