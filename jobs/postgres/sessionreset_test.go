package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// What the statements of a job leave behind in its session does not reach the next job.
func TestNextJobHasAnUnchangedSession(t *testing.T) {
	statements := []string{
		"SELECT set_config('work_mem', '1MB', false)",
		"SET ROLE holdfast_other",
		"CREATE TEMP TABLE rest (n int)",
		"LISTEN rest",
		"SELECT pg_advisory_lock(1)",
		"DECLARE rest CURSOR WITH HOLD FOR SELECT 1",
	}
	const state = `SELECT concat_ws(' ', current_setting('work_mem'), current_user = session_user,
		to_regclass('pg_temp.rest'), (SELECT count(*) FROM pg_listening_channels()),
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
		(SELECT count(*) FROM pg_cursors WHERE name = 'rest'))`
	for name, run := range map[string]func(s *harness, store *Store) error{
		"reset with the commit": func(s *harness, store *Store) error {
			run := s.granted(s.a, s.session(s.a, "a"), request(s.t, "job", "t"))
			_, err := store.RunStatements(s.t.Context(), run, script(statements...))
			return err
		},
		"reset by the pool": func(s *harness, store *Store) error {
			run := s.granted(s.a, s.session(s.a, "a"), request(s.t, "job", "t"))
			return store.inTx(s.t.Context(), run, func(tx pgx.Tx) error {
				for _, sql := range statements {
					if _, err := tx.Exec(s.t.Context(), sql); err != nil {
						return err
					}
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.exec("CREATE ROLE holdfast_other SUPERUSER")
			t.Cleanup(func() {
				if _, err := s.watcher().Exec(context.Background(),
					"DROP ROLE holdfast_other"); err != nil {
					t.Error(err)
				}
			})
			store, err := Open(t.Context(),
				Options{URL: s.url, WorkConnections: 1, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			read := func() (got string, pid uint32) {
				t.Helper()
				conn, release, err := store.work.lease(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer release()
				if err := conn.QueryRow(t.Context(), state).Scan(&got); err != nil {
					t.Fatal(err)
				}
				return got, conn.Conn().PgConn().PID()
			}
			before, first := read()
			if err := run(s, store); err != nil {
				t.Fatal(err)
			}
			after, second := read()
			if after != before {
				t.Errorf("got %q, want %q", after, before)
			}
			if first != second {
				t.Errorf("the connection was closed, want it reset")
			}
		})
	}
}
