package sqlite_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// plan returns the steps of a query's plan.
func plan(t *testing.T, s *sqlite.Store, query string, args ...any) []string {
	t.Helper()
	if len(args) == 0 {
		args = make([]any, parameters(query))
	}
	rows, err := s.Writer().Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// parameters returns the largest n of the parameters ?n.
func parameters(query string) int {
	for n := 9; n > 0; n-- {
		if strings.Contains(query, "?"+string(rune('0'+n))) {
			return n
		}
	}
	return 0
}

func TestQueriesOnGrowingTablesUseIndexes(t *testing.T) {
	s := open(t)
	for _, q := range sqlite.Queries {
		t.Run(q.Name, func(t *testing.T) {
			steps := plan(t, s, q.SQL)
			if !slices.ContainsFunc(steps, func(step string) bool {
				return strings.HasPrefix(step, q.Want)
			}) {
				t.Errorf("plan\n\t%s\nhas no step\n\t%s", strings.Join(steps, "\n\t"), q.Want)
			}
			noBareScan(t, steps)
		})
	}
}

func TestPagesOfHistoryUseAnIndex(t *testing.T) {
	s := open(t)
	before := &storage.RunCursor{CreatedAt: time.Now(), ID: uuid.New()}
	for name, c := range map[string]struct {
		filter storage.RunFilter
		want   string // the index of a step
	}{
		"all": {storage.RunFilter{}, "runs_created"}, "next page": {storage.RunFilter{Before: before}, "runs_created"},
		"job": {storage.RunFilter{Job: "a"}, "runs_job"}, "replica": {storage.RunFilter{Replica: "r"}, "runs_replica"},
		"state":    {storage.RunFilter{States: []jobs.State{jobs.Waiting}}, "runs_state"},
		"states":   {storage.RunFilter{States: []jobs.State{jobs.Waiting, jobs.Running}, Before: before}, "runs_state"},
		"backfill": {storage.RunFilter{Backfill: uuid.New()}, "runs_backfill"},
		"backfill and state": {storage.RunFilter{Backfill: uuid.New(),
			States: []jobs.State{jobs.Succeeded}}, "runs_backfill"},
		"group":  {storage.RunFilter{Group: "g"}, "runs_job"},
		"prefix": {storage.RunFilter{JobPrefix: "a/", Before: before}, "runs_job"},
		"prefix and states": {storage.RunFilter{JobPrefix: "a/",
			States: []jobs.State{jobs.Failed, jobs.Lost}}, "runs_"},
		"job and states": {storage.RunFilter{Job: "a", States: []jobs.State{jobs.Failed, jobs.Lost}}, "runs_"},
	} {
		t.Run(name, func(t *testing.T) {
			query, args, err := sqlite.RunsQuery(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan(t, s, query, args...)
			noBareScan(t, steps)
			if !slices.ContainsFunc(steps, func(step string) bool {
				return strings.Contains(step, " INDEX holdfast_"+c.want)
			}) {
				t.Errorf("no step uses %s:\n\t%s", c.want, strings.Join(steps, "\n\t"))
			}
		})
	}
}

// noBareScan refuses a step that scans a growing table. The tables of jobs (j) and sessions (s) may
// be scanned.
func noBareScan(t *testing.T, steps []string) {
	t.Helper()
	for _, step := range steps {
		small := strings.HasPrefix(step, "SCAN j") || strings.HasPrefix(step, "SCAN s EXISTS") ||
			strings.HasPrefix(step, "SCAN (subquery") || strings.Contains(step, "VIRTUAL TABLE")
		if strings.HasPrefix(step, "SCAN") && !small && !strings.Contains(step, "USING INDEX") &&
			!strings.Contains(step, "USING COVERING INDEX") {
			t.Errorf("step %q reads a whole table:\n\t%s", step, strings.Join(steps, "\n\t"))
		}
	}
}
