package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
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
			"Scheduled, Waited, Recorded " +
				"by replica-1, Advisory lock taken, Started, claim and locks granted, token 1810"},
		"again": {again, []storage.RunAttempt{first}, ago(30 * time.Second), ago(31 * time.Second),
			"Scheduled, Waited, Recorded by replica-1, Started, attempt 1, Advisory lock " +
				"taken, Attempt 2 started, claim and locks granted"},
		"of a backfill": {past, nil, time.Time{}, time.Time{}, "Scheduled, Added by backfill " +
			id(activeBackfill).String() + ", Started, claim and locks granted, token 1812"},
		"failed": {failed, []storage.RunAttempt{first}, time.Time{}, time.Time{},
			"Scheduled, Waited, Recorded by replica-1, Started, attempt 2 was the last, Failed"},
		"waited twice": {failed, []storage.RunAttempt{ended, last}, time.Time{}, time.Time{},
			"Scheduled, Waited 9.0 s, Recorded by replica-1, Started, attempt 2 was the last, " +
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

// TestRunSaysHowLongItWaited checks the sums of the page: waits for locks, and what is left of the
// time between attempts.
func TestRunSaysHowLongItWaited(t *testing.T) {
	at := func(seconds int) *time.Time {
		return pointer(noon.Add(time.Duration(seconds) * time.Second))
	}
	attempt := func(n int, since, started *time.Time) storage.RunAttempt {
		a := storage.RunAttempt{Attempt: n, StartedAt: started}
		if since != nil {
			a.Waited = &storage.Wait{Since: *since}
		}
		return a
	}
	v := runView{Attempts: []storage.RunAttempt{attempt(1, at(0), at(20)), attempt(2, nil, at(50)),
		attempt(3, at(80), at(95)), attempt(4, nil, nil)}}
	v.RetryWaits = []storage.RetryWait{{From: *at(30), Until: at(50)},
		{From: *at(70), Until: at(95)}, {From: *at(100)}}
	if locks, retries := v.LockWaits(), v.RetryWaited(); locks != "35 s" || retries != "30 s" {
		t.Errorf("waited %s for locks and %s between attempts, want 35 s and 30 s", locks, retries)
	}
	v = runView{Attempts: []storage.RunAttempt{attempt(1, nil, at(20))}}
	if text := v.LockWaits() + v.RetryWaited(); text != "" {
		t.Errorf("a run that did not wait waited %s", text)
	}
}

// TestRunIsComparedWithUsual checks that the page compares the current attempt, or all attempts of
// an ended run, with the last runs of the job, and lists the runs before.
func TestRunIsComparedWithUsual(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	h.typical = map[string]storage.Typical{"load": {Runs: 20, Median: time.Minute,
		Long: 2 * time.Minute}}
	slow := running(801, "load", "replica-1", 7*time.Minute)
	fine := running(802, "load", "replica-1", 30*time.Second)
	ended := done(803, "load", "replica-1", time.Hour, 90*time.Second, jobs.Succeeded)
	never := done(804, "load", "replica-1", 2*time.Hour, time.Second, jobs.Skipped)
	never.StartedAt, never.Attempt, never.Reason = nil, 0, reasons.Overlap
	h.runs = append(h.runs, slow, fine, ended, never)
	handler := newServer(t, o).Handler()
	for run, want := range map[uuid.UUID]string{slow.ID: ", 7× usual, on <bdi>replica-1</bdi>",
		fine.ID: ", usually 1 min, on ", ended.ID: "ran 1 min 30 s, usually 1 min, on "} {
		page := flat(get(t, handler, "/runs/"+run.String()).Body.String())
		if !strings.Contains(page, want) {
			t.Errorf("run %s lacks %q", run, want)
		}
	}
	page := flat(get(t, handler, "/runs/"+ended.ID.String()).Body.String())
	_, before, _ := strings.Cut(page, `id="prior"`)
	if strings.Count(before, "<li>") != 1 ||
		!strings.Contains(before, `<a href="/runs/`+never.ID.String()+`">`) ||
		!strings.Contains(before, "an earlier run of the job is still active") {
		t.Errorf("runs before are %s, want the skipped one", before)
	}
	page = get(t, handler, "/runs/"+never.ID.String()).Body.String()
	if strings.Contains(page, "usually") || strings.Contains(page, `id="prior"`) {
		t.Error("the page of a run that did not start compares its time, or lists runs before it")
	}
}
