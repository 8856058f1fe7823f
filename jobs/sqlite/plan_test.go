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
	"github.com/holdfast-dev/holdfast/locking"
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
	table, err := locking.Table("s.t", "")
	if err != nil {
		t.Fatal(err)
	}
	succeeded, active := []jobs.State{jobs.Succeeded}, []jobs.State{jobs.Waiting, jobs.Running}
	unsuccessful := []jobs.State{jobs.Failed, jobs.Lost}
	for name, c := range map[string]struct {
		filter storage.RunFilter
		want   string // the indexes of runs that the steps use, in alphabetical order
	}{
		"all":       {storage.RunFilter{}, "created"},
		"next page": {storage.RunFilter{Before: before}, "created"},
		"job":       {storage.RunFilter{Job: "a"}, "job"},
		"replica":   {storage.RunFilter{Replica: "r"}, "replica"},
		"reason":    {storage.RunFilter{Reason: "r"}, "reason"},
		"state":     {storage.RunFilter{States: active[:1]}, "state"},
		"states":    {storage.RunFilter{States: active, Before: before}, "state"},
		"succeeded": {storage.RunFilter{States: succeeded}, "state"},
		"backfill":  {storage.RunFilter{Backfill: uuid.New()}, "backfill"},
		"backfill and state": {storage.RunFilter{Backfill: uuid.New(), States: succeeded},
			"backfill"},
		"group":  {storage.RunFilter{Group: "g"}, "job"},
		"prefix": {storage.RunFilter{JobPrefix: "a/", Before: before}, "job"},
		"prefix and states": {storage.RunFilter{JobPrefix: "a/", States: unsuccessful},
			"job_unsuccessful"},
		"job and states":           {storage.RunFilter{Job: "a", States: unsuccessful}, "job_unsuccessful"},
		"job, waiting and running": {storage.RunFilter{Job: "a", States: active}, "state"},
		"job and succeeded":        {storage.RunFilter{Job: "a", States: succeeded}, "job"},
		"prefix and succeeded":     {storage.RunFilter{JobPrefix: "a/", States: succeeded}, "job"},
		"group and succeeded":      {storage.RunFilter{Group: "g", States: succeeded}, "job"},
		"resource and succeeded":   {storage.RunFilter{Resource: &table, States: succeeded}, "job"},
		"job, succeeded, next page": {storage.RunFilter{Job: "a", States: succeeded,
			Before: before}, "job"},
		"job and replica":    {storage.RunFilter{Job: "a", Replica: "r"}, "job"},
		"prefix and replica": {storage.RunFilter{JobPrefix: "a/", Replica: "r"}, "job"},
		"job, replica and states": {storage.RunFilter{Job: "a", Replica: "r",
			States: unsuccessful}, "job_unsuccessful"},
		"job and reason":    {storage.RunFilter{Job: "a", Reason: "r"}, "job_unsuccessful state"},
		"prefix and reason": {storage.RunFilter{JobPrefix: "a/", Reason: "r"}, "job_unsuccessful state"},
		"job, reason and states": {storage.RunFilter{Job: "a", Reason: "r",
			States: append(unsuccessful, jobs.Waiting)}, "job_unsuccessful state"},
	} {
		t.Run(name, func(t *testing.T) {
			query, args, err := sqlite.RunsQuery(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan(t, s, query, args...)
			noBareScan(t, steps)
			var used []string
			for _, step := range steps {
				if _, after, found := strings.Cut(step, " INDEX holdfast_runs_"); found {
					index, _, _ := strings.Cut(after, " ")
					used = append(used, index)
				}
			}
			slices.Sort(used)
			if used := strings.Join(slices.Compact(used), " "); used != c.want {
				t.Errorf("steps use %s, want %s:\n\t%s", used, c.want, strings.Join(steps, "\n\t"))
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
