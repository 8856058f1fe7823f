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
	waited.Waited = &storage.Wait{Blocker: jobs.Blocker{Resource: "public/orders",
		Holder: owner(running(11, "prune-orders", "replica-2", time.Hour))}, Since: ago(
		69 * time.Second)}
	again := waited
	again.Attempt = 2
	failed := again
	failed.State, failed.FinishedAt = jobs.Failed, pointer(ago(40*time.Second))
	past := running(12, "rollup-sales", "replica-1", time.Minute)
	past.ScheduledAt, past.CreatedAt = ago(100*time.Hour), ago(65*time.Second)
	past.Key, past.Backfill = "backfill", id(activeBackfill)
	for name, c := range map[string]struct {
		run             storage.Record
		granted, locked time.Time
		want            string
	}{
		"running": {waited, ago(time.Minute), ago(61 * time.Second),
			"Scheduled, Waited, Registered " +
				"by replica-1, Advisory lock taken, Claimed, granted and started, with the token 1810"},
		"again": {again, ago(30 * time.Second), ago(31 * time.Second),
			"Scheduled, Waited, Registered by replica-1, Started, attempt 1, Advisory lock " +
				"taken, Attempt 2 claimed, granted and started"},
		"of a backfill": {past, time.Time{}, time.Time{}, "Scheduled, Added by backfill " +
			id(activeBackfill).String() + ", Claimed, granted and started, with the token 1812"},
		"failed": {failed, time.Time{}, time.Time{},
			"Scheduled, Waited, Registered by replica-1, Started, attempt 2 was the last, Failed"},
	} {
		var got []string
		for _, s := range steps(c.run, nil, c.granted, c.locked) {
			got = append(got, s.What)
			if s.What == "Waited" && (s.After != "1.0 s later" ||
				s.Why != "public/orders was held by job prune-orders on replica-2") {
				t.Errorf("%s: waited %q: %s", name, s.After, s.Why)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s\nwant %s", name, text, c.want)
		}
	}
}
