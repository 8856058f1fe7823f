package fence

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// count returns how many rows the test's own cluster has in a table of the fence.
func (on *target) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := on.db.QueryRowContext(t.Context(), on.dialect.in(
		"SELECT count(*) FROM holdfast_fence."+table+" WHERE cluster = ?"),
		clusterOf(t).String()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// addCommits adds old rows to commits, and returns the id of the youngest of them.
func (on *target) addCommits(t *testing.T, n int) (id string) {
	t.Helper()
	query := "INSERT INTO holdfast_fence.commits " +
		"(id, cluster, job, run, step, token, nonce, done, committed_at) " +
		"SELECT "
	if on.driver == "mysql" {
		query += "uuid(), ?, '', '', '', n, '', 1, NOW(6) - INTERVAL 1 DAY + INTERVAL n SECOND " +
			"FROM (SELECT seq AS n FROM seq_1_to_1000000 LIMIT ?) numbers"
	} else {
		query += "gen_random_uuid(), ?, '', '', '', n, '', 1, " +
			"now() - interval '1 day' + n * interval '1 second' FROM generate_series(1, ?) n"
	}
	cluster := clusterOf(t).String()
	if _, err := on.db.ExecContext(t.Context(), on.dialect.in(query), cluster, n); err != nil {
		t.Fatal(err)
	}
	if err := on.db.QueryRowContext(t.Context(), on.dialect.in("SELECT id "+
		"FROM holdfast_fence.commits WHERE cluster = ? AND token = ?"), cluster, n).
		Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPrune checks what remains: recent commits, and the last reader of each name.
func TestPrune(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		cluster := clusterOf(t)
		count := func(table string) int { return on.count(t, table) }
		run := newRun(cluster, 3, "read public/sales")
		for _, one := range []*jobs.Run{newRun(cluster, 1, "read public/sales"),
			newRun(cluster, 2, "read public/sales"), run} {
			if err := on.do(t, one); err != nil {
				t.Fatal(err)
			}
		}
		prune := func(keep time.Duration) {
			t.Helper()
			if err := PruneSQL(t.Context(), run, on.db, on.dialect, keep); err != nil {
				t.Fatal(err)
			}
		}
		prune(time.Hour)
		if got := count("commits"); got != 3 {
			t.Errorf("got %d commits, want all 3: they are recent", got)
		}
		if got := count("readers"); got != 1 {
			t.Errorf("got %d readers, want the last one", got)
		}
		if err := on.do(t, newRun(cluster, 2, "public/sales")); !errors.Is(err,
			storage.ErrSuperseded) {
			t.Errorf("got %v, want ErrSuperseded by the last reader", err)
		}
		prune(0)
		if got := count("commits"); got != 0 {
			t.Errorf("got %d commits, want none", got)
		}
		if err := on.do(t, newRun(cluster, 4, "public/sales")); err != nil {
			t.Fatal(err)
		}
		if got := count("readers"); got != 0 {
			t.Errorf("got %d readers after an exclusive lock, want none", got)
		}
	})
}

// TestPruneKeepsItsProgress locks the last row that Prune deletes. PostgreSQL leaves out the row.
// In MariaDB, the last batch waits for the row until Prune is cancelled. The deletions of the
// earlier batches remain.
func TestPruneKeepsItsProgress(t *testing.T) {
	const commits = 2*pruneBatch + 10
	onEach(t, func(t *testing.T, on *target) {
		for _, token := range []jobs.Token{1, 2} {
			if err := on.do(t, newRun(clusterOf(t), token, "read public/sales")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := on.begin(t).ExecContext(t.Context(), on.dialect.in(
			"UPDATE holdfast_fence.commits SET done = 0 WHERE id = ?"),
			on.addCommits(t, commits)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			done <- PruneSQL(ctx, newRun(clusterOf(t), 3), on.db, on.dialect, time.Hour)
		}()
		left, want := 1, error(nil)
		if on.driver == "mysql" {
			on.awaitWaiting(t, done)
			cancel()
			left, want = commits%pruneBatch, context.Canceled
		}
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if got := on.count(t, "commits"); got != left+2 {
			t.Errorf("got %d commits, want %d old and 2 recent ones", got, left)
		}
		if got := on.count(t, "readers"); got != 1 {
			t.Errorf("got %d readers, want the last one", got)
		}
	})
}

// TestPruneFindsRowsByAge checks that Prune does not read the recent commits of a cluster.
func TestPruneFindsRowsByAge(t *testing.T) {
	on := newPostgres(t)
	rows, err := on.db.QueryContext(t.Context(), "EXPLAIN "+strings.NewReplacer("$1", "'a'",
		"$2", "60").Replace(Postgres().in(Postgres().pruneCommits())))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(plan, func(line string) bool {
		return strings.Contains(line, "Index Cond:") && strings.Contains(line, "committed_at <")
	}) {
		t.Errorf("got no look-up by committed_at in the plan:\n%s", strings.Join(plan, "\n"))
	}
}
