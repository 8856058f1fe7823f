package postgres

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestStartsExcludeUnderAnyDefaultIsolation(t *testing.T) {
	t.Parallel()
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

func TestStartOfASessionThatExpiresAtAFenceLeavesNoRun(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		session, successor := s.session(s.b, "b"), s.session(s.a, "a")
		s.fences("table:public", "table:public/orders")
		release := s.lockFences(s.a)
		s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() + "+
			"interval '1 second' WHERE id = $1", session)
		late := s.start(s.b, session, ask(request(t, "late", "orders")))
		awaitWaiting(s, "b", late)
		s.exec("SELECT pg_sleep(extract(epoch FROM expires_at - clock_timestamp()) + 0.01) "+
			"FROM holdfast.sessions WHERE id = $1", session)
		release()
		s.expect(late, storage.StartNotLive)
		s.granted(s.a, successor, request(t, "late", "orders"))
	})
}
