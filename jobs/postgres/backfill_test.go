package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// endingBackfills ends the active backfill of a job when a store has been refused to add another
// one, and has not yet read the active one.
type endingBackfills struct {
	turns
	s     *harness
	again bool // there is another active backfill before each try
}

func (e *endingBackfills) TraceQueryStart(ctx context.Context, _ *pgx.Conn,
	data pgx.TraceQueryStartData) context.Context {
	if e.again && strings.Contains(data.SQL, addBackfill) {
		e.s.exec(`
INSERT INTO holdfast.backfills (id, job, from_at, to_at, parallel, schedule, state, created_at,
    created_by, reason, handled_until, times)
SELECT gen_random_uuid(), job, from_at, to_at, parallel, schedule, 'active', created_at,
    created_by, reason, handled_until, times FROM holdfast.backfills LIMIT 1
ON CONFLICT DO NOTHING`)
	}
	if strings.Contains(data.SQL, activeBackfill) {
		e.s.exec("UPDATE holdfast.backfills SET state = 'completed', ended_at = now() " +
			"WHERE state = 'active'")
		e.queries++
	}
	return ctx
}

// An active backfill prevents the addition of another one. It may end before the store has read who
// requested it.
func TestBackfillIsAddedIfTheActiveOneEnds(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"one": false, "others again and again": true} {
		t.Run(name, func(t *testing.T) {
			s := newSingleHarness(t)
			s.sessionWith(s.a, "a", "load", "h")
			now := time.Now()
			request := storage.BackfillRequest{Job: "load", From: now.Add(-2 * time.Hour),
				To: now.Add(-time.Hour), Parallel: 1, Times: 1,
				ScheduleKey: query[string](s, "SELECT "+scheduleKey+" FROM holdfast.definitions d")}
			first, err := s.a.AddBackfill(t.Context(), operator, request)
			if err != nil {
				t.Fatal(err)
			}
			ending := &endingBackfills{s: s, again: again}
			added, err := openTraced(t, s.url, 1, ending).AddBackfill(t.Context(), operator,
				request)
			if again {
				if !errors.Is(err, storage.ErrConflict) || ending.queries != backfillTries ||
					!strings.Contains(err.Error(), "backfill of job load has just ended") {
					t.Errorf("got %v after %d tries, want a conflict after %d", err,
						ending.queries, backfillTries)
				}
				return
			}
			if err != nil || added.ID == first.ID || ending.queries != 1 {
				t.Errorf("got %+v, %v after %d conflicts, want another backfill after one", added,
					err, ending.queries)
			}
			if n := query[int](s, "SELECT count(*) FROM holdfast.backfills "+
				"WHERE state = 'active'"); n != 1 {
				t.Errorf("got %d active backfills, want 1", n)
			}
		})
	}
}
