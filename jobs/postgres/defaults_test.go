package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestStartsExcludeUnderAnyDefaultIsolation(t *testing.T) {
	s := newHarness(t)
	s.exec(fmt.Sprintf("ALTER DATABASE %q SET default_transaction_isolation = 'repeatable read'",
		query[string](s, "SELECT current_database()")))
	a, b := openAs(t, s.url, "later-a"), openAs(t, s.url, "later-b")
	one, two := s.session(s.a, "a"), s.session(s.b, "b")
	s.granted(s.a, one, request(t, "earlier", "orders")) // the fence exists
	s.exec("DELETE FROM holdfast.grants")
	resume := s.pause("later-a", "holdfast.claims", "COMMIT", "true")
	first := s.start(a, one, request(t, "first", "orders"))
	awaitWaiting(s, "later-a", first)
	second := s.start(b, two, request(t, "second", "orders"))
	awaitWaiting(s, "later-b", second)
	resume()
	s.expect(first, storage.StartGranted)
	s.expect(second, storage.StartBlocked)
}

func TestRunOfASessionThatExpiresInsideAStartIsAdopted(t *testing.T) {
	s := newHarness(t)
	session, successor := s.session(s.b, "b"), s.session(s.a, "a")
	s.granted(s.a, successor, request(t, "earlier", "orders"))
	tx, err := s.a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // after the test it does not matter
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.fences FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() + interval '1 second' "+
		"WHERE id = $1", session)
	r := request(t, "late", "orders")
	late := s.start(s.b, session, r)
	awaitWaiting(s, "b", late)
	s.exec("SELECT pg_sleep(extract(epoch FROM expires_at - clock_timestamp()) + 0.01) FROM "+
		"holdfast.sessions WHERE id = $1", session)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect(late, storage.StartNotLive)
	if _, err := s.a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	adopted, err := s.a.Adopt(t.Context(), successor, jobstest.Adoption(nil, 10, "late"))
	if err != nil || len(adopted) != 1 || adopted[0].ID != r.Run {
		t.Errorf("adopted %+v, %v", adopted, err)
	}
}
