package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestPausedDependentsHaveNoOpenFirings pauses the dependents by each kind of pause.
func TestPausedDependentsHaveNoOpenFirings(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("INSERT INTO holdfast.jobs SELECT name, 1, now(), now() FROM unnest(ARRAY['f', " +
		"'one']) AS n (name)")
	for _, c := range []struct {
		kind, name string
		listed     bool
	}{{"job", "f", false}, {"group", "night", false}, {"all", "", false}, {"job", "one", true},
		{"group", "f", true}} {
		s.exec("INSERT INTO holdfast.pauses (id, kind, name, paused_at, paused_by, reason) "+
			"VALUES (gen_random_uuid(), $1, $2, now(), 'me', '')", c.kind, c.name)
		for _, over := range []bool{false, true} {
			if over {
				s.exec("UPDATE holdfast.pauses SET resumed_at = now()")
			}
			for group, listed := range map[string]bool{"night": c.listed || over,
				"": c.listed || over || c.kind == "group"} {
				openFirings, err := s.a.OpenFirings(t.Context(),
					[]storage.Dependent{{Job: "f", Version: 1, Group: group,
						After: []string{"one"}}})
				if _, there := openFirings["f"]; err != nil || there != listed {
					t.Errorf("%s %s paused, over %v, in group %q: got %v, %v, want %v", c.kind,
						c.name, over, group, there, err, listed)
				}
			}
		}
		s.exec("DELETE FROM holdfast.pauses")
	}
}

// TestOpenFiringsReadFewRows checks the rows that are read in a long history with few runs after
// the cursor.
func TestOpenFiringsReadFewRows(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	start := time.Now().Truncate(time.Second)
	s.exec(`
INSERT INTO holdfast.jobs SELECT 'f' || n, 1, $1::timestamptz, $1
    FROM generate_series(1, 20) n;`, start)
	s.history(`
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, created_at, finished_at)
SELECT gen_random_uuid(), name, $1::timestamptz + n * interval '1 second', 1, 'succeeded', now(),
    now()
FROM unnest(ARRAY['one', 'other', 'f1', 'f2']) AS j (name), generate_series(-5000, 30) n`, start)
	s.exec("ANALYZE holdfast.runs")
	var dependents []storage.Dependent
	for i := range 20 {
		dependents = append(dependents,
			storage.Dependent{Job: fmt.Sprintf("f%d", i+1), Version: 1,
				After: []string{"one", "other"}})
	}
	openFirings, err := s.a.OpenFirings(t.Context(), dependents)
	if err != nil || len(openFirings) != 20 || len(openFirings["f1"].ScheduledTimes) != 0 ||
		len(openFirings["f3"].ScheduledTimes) != 30 {
		t.Fatalf("%d dependents, f1 with %d and f3 with %d openings, %v", len(openFirings),
			len(openFirings["f1"].ScheduledTimes), len(openFirings["f3"].ScheduledTimes), err)
	}
	columns, _, err := dependentColumns(dependents)
	if err != nil {
		t.Fatal(err)
	}
	if rows := s.rowsRead("on runs ", openScheduledTimes,
		append(columns, storage.MaxBatch)...); rows > 20*30*3+100 {
		t.Errorf("%d rows read for 20 dependents with 30 scheduled times behind their cursors",
			rows)
	}
}

// rowsRead runs a statement as the store does, and returns how many rows the nodes of its plan
// returned whose description has the text, "" for all nodes.
func (s *harness) rowsRead(text, sql string, args ...any) int {
	s.t.Helper()
	ctx := s.t.Context()
	tx, err := s.watcher().Begin(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tx.Rollback(ctx) //nolint:errcheck // nothing was written
	if _, err := tx.Exec(ctx, beginPipeline, "1s"); err != nil {
		s.t.Fatal(err)
	}
	// EXPLAIN of the statement itself would plan it for these arguments.
	if _, err := tx.Exec(ctx, "PREPARE planned AS "+sql); err != nil {
		s.t.Fatal(err)
	}
	defer s.exec("DEALLOCATE planned")
	execute := "EXPLAIN (ANALYZE, TIMING OFF) EXECUTE planned"
	for i := range args {
		execute += map[bool]string{true: "(", false: ", "}[i == 0] + "$" + strconv.Itoa(i+1)
	}
	rows, err := tx.Query(ctx, execute+")",
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	scan := regexp.MustCompile(regexp.QuoteMeta(text) +
		`.*\(actual rows=(\d+)(?:\.\d+)? loops=(\d+)\)`)
	read, scans := 0, 0
	for _, line := range lines {
		found := scan.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		each, err := strconv.Atoi(found[1])
		if err != nil {
			s.t.Fatal(err)
		}
		loops, err := strconv.Atoi(found[2])
		if err != nil {
			s.t.Fatal(err)
		}
		read, scans = read+max(each, 1)*loops, scans+1
	}
	if scans < 3 {
		s.t.Fatalf("%d scans of runs in\n%v", scans, lines)
	}
	return read
}
