package fence

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pairs are the locks of two runs, and whether they conflict.
var pairs = []struct {
	one, other string
	conflict   bool
}{
	{"public/orders", "public/orders", true},
	{"public/orders", "public/sales", false},
	{"public", "public/orders", true},
	{"public", "private/orders", false},
	{"public", "public2/orders", false},
	{"read public/orders", "read public/orders", false},
	{"read public/orders", "public/orders", true},
	{"read public", "public/orders", true},
	{"read public", "read public/orders", false},
	{"read public", "read public", false},
	{"read public", "public", true},
	{"read public/orders", "public", true},
	{"warehouse:public/orders", "public/orders", false},
	{"warehouse:public", "warehouse:public/orders", true},
	{"job:a", "job:b", false},
}

// TestSmallerTokenIsSuperseded lets a run commit, and then an older one.
func TestSmallerTokenIsSuperseded(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		for i, pair := range pairs {
			for j, order := range [][2]string{{pair.one, pair.other}, {pair.other, pair.one}} {
				cluster := clusterOf(t)
				cluster[0], cluster[1] = byte(i), byte(j)
				for _, locks := range order { // so that the rows exist
					if err := on.do(t, newRun(cluster, 1, locks)); err != nil {
						t.Fatal(err)
					}
				}
				if err := on.do(t, newRun(cluster, 9, order[0])); err != nil {
					t.Fatal(err)
				}
				err := on.do(t, newRun(cluster, 8, order[1]))
				if got := errors.Is(err, storage.ErrSuperseded); got != pair.conflict ||
					err != nil && !got {
					t.Errorf("%q after %q: got %v, want superseded: %t", order[1], order[0], err,
						pair.conflict)
				}
				if err := on.do(t, newRun(cluster, 10, order[1])); err != nil {
					t.Errorf("%q after %q: got %v for a larger token", order[1], order[0], err)
				}
			}
		}
	})
}

// do executes a run that writes nothing.
func (on *target) do(t *testing.T, run *jobs.Run) error {
	t.Helper()
	return DoSQL(t.Context(), run, on.db, on.dialect, func(*sql.Tx) error { return nil })
}

// TestConflictingTransactionsWait begins the transaction of a run while that of another one is
// open, when all names are known, when only schemas are, and when none is.
func TestConflictingTransactionsWait(t *testing.T) {
	for known, locks := range map[string]func(one, other string) []string{
		"all": func(one, other string) []string { return []string{one, other} },
		"schemas": func(string, string) []string {
			return []string{"read public", "read private", "read warehouse:public"}
		},
		"none": func(string, string) []string { return nil },
	} {
		t.Run(known, func(t *testing.T) {
			onEach(t, func(t *testing.T, on *target) {
				for i, pair := range pairs {
					orders := [][2]string{{pair.one, pair.other}, {pair.other, pair.one}}
					for j, both := range soak.Pick(orders[i%2:i%2+1], orders) {
						cluster := clusterOf(t)
						cluster[0], cluster[1], cluster[2] = byte(i), byte(j), 0
						if pair.conflict || known == "all" && !on.locksGaps(both[:]) {
							on.use(t, cluster, locks(both[0], both[1]))
							on.checkWait(t, cluster, on.inTx, both, pair.conflict)
						} // insertions of names may wait for each other
						cluster[2] = 1
						if pair.conflict || known == "all" ||
							!slices.Contains(both[:], "read public") {
							on.use(t, cluster, locks(both[0], both[1]))
							on.checkWait(t, cluster, on.doSQL, both, pair.conflict)
						} // a new name waits for readers of its schema
					}
				}
			})
		})
	}
}

// locksGaps reports whether readers wait because the server locks gaps between rows.
func (on *target) locksGaps(locks []string) bool {
	return on.driver == "mysql" && on.isolation != sql.LevelReadCommitted &&
		slices.Contains(locks, "read public")
}

// use executes a run for each of the locks, so that their names are known.
func (on *target) use(t *testing.T, cluster uuid.UUID, locks []string) {
	t.Helper()
	for _, names := range locks {
		if err := on.do(t, newRun(cluster, 1, names)); err != nil {
			t.Fatal(err)
		}
	}
}

// opener begins a fenced transaction of the run.
type opener func(t *testing.T, run *jobs.Run) (commit func() error)

// inTx is an opener with InTx.
func (on *target) inTx(t *testing.T, run *jobs.Run) (commit func() error) {
	t.Helper()
	tx := on.begin(t)
	if err := InTx(t.Context(), run, SQL(tx, on.dialect)); err != nil {
		t.Fatal(err)
	}
	return tx.Commit
}

// doSQL is an opener with DoSQL.
func (on *target) doSQL(t *testing.T, run *jobs.Run) (commit func() error) {
	t.Helper()
	inside, leave, done := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		done <- DoSQL(t.Context(), run, on.db, on.dialect, func(*sql.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	select {
	case <-inside:
	case err := <-done:
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(end)
	return func() error {
		end()
		return <-done
	}
}

// checkWait begins the transaction of a run while that of another one is open.
func (on *target) checkWait(t *testing.T, cluster uuid.UUID, open opener, both [2]string,
	conflict bool) {
	t.Helper()
	commit := open(t, newRun(cluster, 5, both[0]))
	done := make(chan error, 1)
	go func() { done <- on.do(t, newRun(cluster, 6, both[1])) }()
	if conflict {
		on.awaitWaiting(t, done)
	} else {
		select {
		case err := <-done:
			done <- err
		case <-time.After(10 * time.Second):
			t.Errorf("%q waits for %q", both[1], both[0])
		}
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%q beside %q: %v", both[1], both[0], err)
	}
}

// TestReaderOfASchemaBeginsBeforeThePass begins a reader of a schema between the insertion of a new
// name beneath it and the transaction of the job.
func TestReaderOfASchemaBeginsBeforeThePass(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		cluster, reader := clusterOf(t), on.begin(t)
		begins, inside := 0, make(chan bool)
		done := make(chan error, 1)
		go func() {
			done <- fenced(t.Context(), newRun(cluster, 6, "public/orders"), "",
				func(ctx context.Context) (*opened, error) {
					if begins++; begins == 3 { // the first found no name, the second added it
						if err := InTx(ctx, newRun(cluster, 5, "read public"),
							SQL(reader, on.dialect)); err != nil {
							return nil, err
						}
						close(inside)
					}
					return beginSQL(ctx, on.db, on.dialect, on.writer(t, "orders", 6))
				})
		}()
		select {
		case <-inside:
		case err := <-done:
			t.Fatalf("got %v and %d transactions, want a third one", err, begins)
		}
		on.awaitWaiting(t, done)
		if err := reader.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || len(on.tokens(t, "orders")) != 1 {
			t.Errorf("got %v and the tokens %d, want the writer after the reader", err,
				on.tokens(t, "orders"))
		}
	})
}

// TestNamesWithoutReadersDoNotWait runs a job on a name without readers while the transaction of
// another job is open, which has deleted the readers of the name before it.
func TestNamesWithoutReadersDoNotWait(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		cluster := clusterOf(t)
		for _, names := range []string{"read public", "public2/orders"} {
			if err := on.do(t, newRun(cluster, 1, names)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := DoSQL(ctx, newRun(cluster, 5, "public"), on.db, on.dialect,
			func(*sql.Tx) error {
				return DoSQL(ctx, newRun(cluster, 6, "public2/orders"), on.db, on.dialect,
					func(*sql.Tx) error { return nil })
			}); err != nil {
			t.Errorf("got %v, want no wait", err)
		}
	})
}

// TestWaitingRunSeesTheOlderCommit begins a transaction that waits for an older one. It must then
// see what the older one has committed, at the default isolation level too.
func TestWaitingRunSeesTheOlderCommit(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		cluster := clusterOf(t)
		older := on.begin(t)
		if err := InTx(t.Context(), newRun(cluster, 5, "public/orders"),
			SQL(older, on.dialect)); err != nil {
			t.Fatal(err)
		}
		if err := on.write(t.Context(), older, "orders", 5); err != nil {
			t.Fatal(err)
		}
		newer := on.begin(t)
		done := make(chan error, 1)
		go func() {
			done <- InTx(t.Context(), newRun(cluster, 6, "public/orders"), SQL(newer, on.dialect))
		}()
		on.awaitWaiting(t, done)
		if err := older.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := newer.QueryRowContext(t.Context(), "SELECT count(*) FROM log").
			Scan(&rows); err != nil || rows != 1 {
			t.Errorf("got %d rows, %v, want the row of the older run", rows, err)
		}
	})
}

// TestRolledBackTokenIsGone shows a limit: the token of a run that has not committed does not keep
// an older run out.
func TestRolledBackTokenIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		newer := on.begin(t)
		if err := InTx(t.Context(), newRun(clusterOf(t), 6, "public/orders"),
			SQL(newer, on.dialect)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- on.do(t, newRun(clusterOf(t), 5, "public/orders")) }()
		on.awaitWaiting(t, done)
		if err := newer.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("got %v, want a commit of the older run", err)
		}
	})
}

// TestCheckIsRefusedAtOtherLevels checks the isolation level in PostgreSQL, where a snapshot would
// be older than the locks.
func TestCheckIsRefusedAtOtherLevels(t *testing.T) {
	on := newPostgres(t)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		on.isolation = level
		err := Check(t.Context(), newRun(clusterOf(t), 5, "public/orders"),
			SQL(on.begin(t), on.dialect))
		if !errors.Is(err, ErrIsolation) {
			t.Errorf("%s: got %v, want ErrIsolation", level, err)
		}
	}
}

// TestTransactionsAreBounded reads the limits that the server applies, and that a session returns
// to the pool without them.
func TestTransactionsAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		query, want := "SELECT current_setting('idle_in_transaction_session_timeout')", "1min"
		if on.driver == "mysql" {
			query, want = "SELECT @@session.idle_transaction_timeout", "60"
		}
		on.db.SetMaxOpenConns(1)
		var before, inside, after string
		read := func(row *sql.Row, dest *string) {
			t.Helper()
			if err := row.Scan(dest); err != nil {
				t.Fatal(err)
			}
		}
		read(on.db.QueryRowContext(t.Context(), query), &before)
		if err := DoSQL(t.Context(), newRun(clusterOf(t), 5, "public/orders"), on.db, on.dialect,
			func(tx *sql.Tx) error {
				read(tx.QueryRowContext(t.Context(), query), &inside)
				return nil
			}); err != nil {
			t.Fatal(err)
		}
		read(on.db.QueryRowContext(t.Context(), query), &after)
		if inside != want || after != before {
			t.Errorf("got the limits %s, %s and %s, want %s inside and no change after", before,
				inside, after, want)
		}
	})
}

// TestDistantDeadline commits before a deadline that is further away than the longest timeout of
// the server.
func TestDistantDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*365*24*time.Hour)
		defer cancel()
		if err := DoSQL(ctx, newRun(clusterOf(t), 5, "public/orders"), on.db, on.dialect,
			func(*sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// TestTokensGrowPerName has many runs with new names, schemas and readers at the same time. The
// commits on each name must be in the order of the tokens.
func TestTokensGrowPerName(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		cluster := clusterOf(t)
		var last atomic.Int64
		var clients sync.WaitGroup
		failed := make(chan error, 8)
		for range 8 {
			clients.Go(func() {
				failed <- on.writeMany(t.Context(), cluster, &last, soak.Pick(10, 25))
			})
		}
		clients.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"a/x", "a/y", "b/x"} {
			if tokens := on.tokens(t, name); !slices.IsSorted(tokens) || len(tokens) == 0 {
				t.Errorf("got the tokens %d on %s, want them to grow", tokens, name)
			}
		}
	})
}

// writeMany executes runs with random locks. Superseded runs count too.
func (on *target) writeMany(ctx context.Context, cluster [16]byte, last *atomic.Int64,
	runs int) error {
	for range runs {
		wanted := [][]string{{"a/x"}, {"a/y"}, {"b/x"}, {"a/x", "b/x"}, {"a", "b/x"},
			{"read a", "b/x"}, {"read a/x", "a/y"}, {"read b/x", "a/x"}}
		locks := wanted[rand.N(len(wanted))]
		token := jobs.Token(last.Add(1))
		err := DoSQL(ctx, newRun(cluster, token, locks...), on.db, on.dialect,
			func(tx *sql.Tx) error {
				for _, name := range locks {
					if err := on.write(ctx, tx, name, token); err != nil {
						return err
					}
				}
				return nil
			})
		if err != nil && !errors.Is(err, storage.ErrSuperseded) {
			return err
		}
	}
	return nil
}
