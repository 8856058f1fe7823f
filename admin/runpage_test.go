package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestStepsAreInOrder checks runs whose steps come from different sources.
func TestStepsAreInOrder(t *testing.T) {
	waited := running(10, "rollup-sales", "replica-1", time.Minute)
	waited.ScheduledAt, waited.CreatedAt = ago(70*time.Second), ago(65*time.Second)
	orders := jobs.Blocker{Resource: "public/orders",
		Holder: owner(running(11, "prune-orders", "replica-2", time.Hour))}
	first := storage.RunAttempt{Attempt: 1,
		Waited: &storage.Wait{Blocker: orders, Since: ago(69 * time.Second)}}
	again := waited
	again.Attempt = 2
	failed := again
	failed.State, failed.FinishedAt = jobs.Failed, pointer(ago(40*time.Second))
	ended, last := first, storage.RunAttempt{Attempt: 2, StartedAt: pointer(ago(42 * time.Second)),
		Waited: &storage.Wait{Blocker: orders, Since: ago(50 * time.Second)}}
	ended.State, ended.StartedAt, ended.FinishedAt = jobs.Failed, waited.StartedAt,
		pointer(ago(55*time.Second))
	past := running(12, "rollup-sales", "replica-1", time.Minute)
	past.ScheduledAt, past.CreatedAt = ago(100*time.Hour), ago(65*time.Second)
	past.Key, past.Backfill = "backfill", id(activeBackfill)
	for name, c := range map[string]struct {
		run             storage.Record
		attempts        []storage.RunAttempt
		granted, locked time.Time
		want            string
	}{
		"running": {waited, []storage.RunAttempt{first}, ago(time.Minute), ago(61 * time.Second),
			"Scheduled, Waited, Registered " +
				"by replica-1, Advisory lock taken, Claimed, granted and started, with the token 1810"},
		"again": {again, []storage.RunAttempt{first}, ago(30 * time.Second), ago(31 * time.Second),
			"Scheduled, Waited, Registered by replica-1, Started, attempt 1, Advisory lock " +
				"taken, Attempt 2 claimed, granted and started"},
		"of a backfill": {past, nil, time.Time{}, time.Time{}, "Scheduled, Added by backfill " +
			id(activeBackfill).String() + ", Claimed, granted and started, with the token 1812"},
		"failed": {failed, []storage.RunAttempt{first}, time.Time{}, time.Time{},
			"Scheduled, Waited, Registered by replica-1, Started, attempt 2 was the last, Failed"},
		"waited twice": {failed, []storage.RunAttempt{ended, last}, time.Time{}, time.Time{},
			"Scheduled, Waited 9.0 s, Registered by replica-1, Started, attempt 2 was the last, " +
				"Attempt 1 failed, Attempt 2 waited 8.0 s, Attempt 2 started, Failed"},
	} {
		var got []string
		for _, s := range steps(c.run, c.attempts, c.granted, c.locked) {
			got = append(got, s.What)
			if strings.HasPrefix(s.What, "Waited") && s.After != "1.0 s later" {
				t.Errorf("%s: waited %q", name, s.After)
			}
			if strings.Contains(strings.ToLower(s.What), "waited") &&
				s.Why != "public/orders was held by job prune-orders on replica-2" {
				t.Errorf("%s: %s: %s", name, s.What, s.Why)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s\nwant %s", name, text, c.want)
		}
	}
}
