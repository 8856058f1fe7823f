package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A start of many unknown names does not look for each fence whether it exists. If one is missing,
// the start begins again and adds it, and the next starts look first. A start of few names looks.
func TestStartAddsTheFencesThatItMisses(t *testing.T) {
	t.Parallel()
	for size, batches := range map[int][]int{1: {1, 1}, fewFences: {2, 1}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newHarness(t)
			session := s.session(s.a, "a")
			counter := &turns{}
			traced := openTraced(t, s.url, 1, counter)
			for i, batches := range batches {
				var requests []storage.StartRequest
				var want []storage.StartOutcome
				for n := range size {
					requests = append(requests, request(t, fmt.Sprintf("job-%d-%d", i, n),
						fmt.Sprintf("t_%d_%d", i, n)))
					want = append(want, storage.StartGranted)
				}
				counter.batches = 0
				s.expect(s.start(traced, session, requests...), want...)
				if counter.batches != batches {
					t.Errorf("start %d of new names: %d batches, want %d", i+1, counter.batches,
						batches)
				}
			}
		})
	}
}

// fenceLooks counts the batches of a store, and its looks for missing fences.
type fenceLooks struct {
	turns
	looks []string // the names of each look
}

func (c *fenceLooks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	if strings.Contains(d.SQL, "INSERT INTO holdfast.fences") {
		c.looks = append(c.looks, strings.Join(d.Args[0].([]string), " "))
	}
}

// took resets the counts and returns them.
func (c *fenceLooks) took() string {
	took := fmt.Sprintf("%d batches, looks for [%s]", c.batches, strings.Join(c.looks, ", "))
	*c = fenceLooks{}
	return took
}

// A store looks once for a fence that it has found young, and each time for one that it has found
// old. It looks again if a fence was missing, although it knew it.
func TestStartLooksOnlyForUnknownFences(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	counter := &fenceLooks{}
	traced := openTraced(t, s.url, 1, counter)
	scheduledAt := testScheduledAt
	start := func(want string, names ...string) {
		t.Helper()
		scheduledAt = scheduledAt.Add(time.Minute)
		var requests []storage.StartRequest
		var granted []storage.StartOutcome
		for _, name := range names {
			r := request(t, "job-"+name, name)
			r.Firing.ScheduledAt = scheduledAt
			requests, granted = append(requests, r), append(granted, storage.StartGranted)
		}
		s.expect(s.start(traced, session, requests...), granted...)
		if got := counter.took(); got != want {
			t.Errorf("start on %v: %s, want %s", names, got, want)
		}
		s.exec("TRUNCATE holdfast.claims, holdfast.grants")
	}
	start("1 batches, looks for [table:public table:public/a]", "a")
	start("1 batches, looks for []", "a")
	start("1 batches, looks for [table:public/b]", "a", "b")
	start("1 batches, looks for []", "a", "b")

	s.exec("UPDATE holdfast.fences SET added_at = now() - interval '31 minutes' " +
		"WHERE resource = 'table:public/a'")
	start("1 batches, looks for []", "a", "b") // known from before
	traced.fences.forget()
	start("1 batches, looks for [table:public table:public/a table:public/b]", "a", "b")
	start("1 batches, looks for [table:public/a]", "a", "b")

	s.exec("DELETE FROM holdfast.fences WHERE resource = 'table:public/b'")
	start("2 batches, looks for [table:public/a, table:public table:public/a table:public/b]",
		"a", "b")
	start("1 batches, looks for [table:public/a]", "a", "b")

	s.exec("TRUNCATE holdfast.fences")
	start("2 batches, looks for [table:public table:public/b]", "b")
	if fences := query[[]string](s, "SELECT array_agg(resource ORDER BY resource) "+
		"FROM holdfast.fences"); !slices.Equal(fences, []string{"table:public", "table:public/b"}) {
		t.Errorf("fences %v after a start that missed them", fences)
	}
}

// A start that knew the missing fence may make it known again before the retry.
func TestRetryAddsKnownFencesToo(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	var retries []bool
	if err := s.a.sendAgain(t.Context(), func(b *pgx.Batch, retry bool) {
		if retries = append(retries, retry); !retry && len(retries) < 3 {
			b.Queue("SELECT 2147483648::int") // fails like the lock of a missing fence
		}
	}); err != nil || !slices.Equal(retries, []bool{false, true}) {
		t.Errorf("the tries of a batch were retries: %v (%v)", retries, err)
	}
	s.a.missedFence.until.Store(0)
	names := allNames(request(t, "job", "orders").Requests)
	s.a.fences.note(names, time.Now())
	if add := s.a.fencesToAdd(names, false); len(add) > 0 {
		t.Errorf("a start adds the known fences %v", add)
	}
	if add := s.a.fencesToAdd(names, true); !slices.Equal(add, names) {
		t.Errorf("a retry adds %v, want %v", add, names)
	}
}

// A start whose transaction fails has added no fence, so it knows none.
func TestFailedStartKnowsNoFence(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE 'refused'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON holdfast.runs EXECUTE FUNCTION refuse()`)
	r := request(t, "job", "orders")
	if got := <-s.start(s.a, session, r); got.err == nil {
		t.Fatal("the start did not fail")
	}
	names := allNames(r.Requests)
	if unknown := s.a.fences.unknown(names, time.Now()); !slices.Equal(unknown, names) {
		t.Errorf("only %v are unknown after a start that failed, want %v", unknown, names)
	}
}

// A fence is known for at least half of knownFor and at most for knownFor, however often the store
// notes others and looks for it.
func TestFencesAreKnownForALimitedTime(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for _, each := range []time.Duration{time.Minute, 11 * time.Minute, knownFor - time.Minute} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/busy=%v", each, busy), func(t *testing.T) {
				var k knownFences
				k.note([]string{"other"}, begin)
				noted := begin.Add(time.Minute)
				k.note([]string{"a"}, noted)
				for passed := time.Duration(0); passed < 2*knownFor; passed += each {
					now := noted.Add(passed)
					if busy {
						k.note([]string{"other"}, now)
					}
					known := len(k.unknown([]string{"a"}, now)) == 0
					if passed < knownFor/2 && !known || passed >= knownFor && known {
						t.Errorf("after %v: known is %v", passed, known)
					}
				}
			})
		}
	}
	if knownFor+30*time.Minute >= fencesKept {
		t.Error("a fence may be known when a sweep deletes it")
	}
}

func TestKnownFencesAreLimited(t *testing.T) {
	t.Parallel()
	var k knownFences
	now := time.Now()
	for i := range 3 * mostKnownFences {
		k.note([]string{fmt.Sprint(i)}, now)
	}
	if n := len(k.recent) + len(k.older); n > 2*mostKnownFences {
		t.Errorf("%d fences are remembered, want at most %d", n, 2*mostKnownFences)
	}
	last := fmt.Sprint(3*mostKnownFences - 1)
	if unknown := k.unknown([]string{last, "0"}, now); !slices.Equal(unknown, []string{"0"}) {
		t.Errorf("%v are unknown, want only the oldest", unknown)
	}
}
