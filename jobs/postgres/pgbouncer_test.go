package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Two stores share a few connections of a real pgbouncer in transaction mode. Their runs and fenced
// transactions exclude each other as they do without it.
func TestStoreBehindPgbouncer(t *testing.T) {
	t.Parallel()
	direct := database(t)
	through := servertest.NewPgbouncer(t, server).URL(direct)
	if found := inspected(t, through); !found.Pooled || found.ReadCommitted != nil ||
		found.Schema != nil {
		t.Errorf("got %+v, want a pooler, read committed", found)
	}
	s := &harness{t: t, url: direct, a: openAs(t, through, "a"), b: openAs(t, through, "b")}
	s.exec("CREATE TABLE orders (store text, n int)")
	var working sync.WaitGroup
	for _, store := range []*Store{s.a, s.b} {
		session := s.session(store, fmt.Sprintf("replica-%p", store))
		const tables = 5 // each store has its own, so that no start is refused
		for i := range tables {
			working.Go(func() {
				name := fmt.Sprintf("orders_%p_%d", store, i)
				for n := range soak.Pick(10, 200) {
					r := request(t, name, name)
					r.Firing.ScheduledAt = r.Firing.ScheduledAt.Add(time.Duration(n) * time.Second)
					results, err := store.Start(t.Context(), session, []storage.StartRequest{r})
					if err != nil || results[0].Outcome != storage.StartGranted {
						t.Errorf("start: %+v, %v", results, err)
						return
					}
					run := jobstest.StoredRun(store, r, results[0].Token)
					if err := CompleteInTx(t.Context(), run, func(tx pgx.Tx) error {
						_, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES ($1, $2)", name,
							n)
						return err
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	working.Wait()
	if n, want := query[int](s, "SELECT count(*) FROM orders"), 10*soak.Pick(10, 200); n != want {
		t.Errorf("got %d effects, want %d", n, want)
	}

	// The backends are those of the pooler, so they say nothing about replicas.
	s.neverDisconnected(through)

	// A superseded run commits nothing.
	session := s.session(s.a, "superseded")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	s.expect(s.start(s.b, s.session(s.b, "other"), request(t, "another", "orders")),
		storage.StartBlocked)
	s.exec("DELETE FROM holdfast.claims")
	if err := InTx(t.Context(), run, func(pgx.Tx) error { return nil }); !errors.Is(err,
		storage.ErrSuperseded) {
		t.Errorf("got %v, want ErrSuperseded", err)
	}
	// Notifications do not arrive through transaction pooling. Listen says so, and replicas poll.
	s.a.listenTimeout = 200 * time.Millisecond
	if err := s.a.Listen(t.Context(), func() {}); !errors.Is(err, errNotNotified) {
		t.Errorf("listen: got %v, want an error that no notification arrives", err)
	}
}

// The store meets its conformance rules through a real pgbouncer in transaction mode.
func TestConformanceBehindPgbouncer(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	databases := newLender(t)
	databases.through = servertest.NewPgbouncer(t, server).URL
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		d := databases.lend(t)
		s := &harness{t: t, url: d.url, a: d.store(databases, t, "a"), connection: d.conn}
		return jobstest.Fixture{
			Store:  s.a,
			Second: func() storage.Store { return d.store(databases, t, "b") },
			Expire: s.expire, Pause: s.pauseJobs, Pass: s.pass,
			PassEnded: s.passEnded, Pooled: true,
		}
	})
}
