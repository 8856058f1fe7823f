package main

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		run  storage.Record
		want string
	}{
		{storage.Record{State: jobs.Succeeded}, "succeeded"},
		{storage.Record{State: jobs.Skipped, Reason: reasons.LockHeld}, "skipped: lock_held"},
		{storage.Record{State: jobs.Lost, Reason: reasons.SessionLost, Error: "gone"}, "lost: session_lost"},
		{storage.Record{State: jobs.Failed, Error: "sql: statement 2: ERROR: deadlock detected (SQLSTATE 40P01)"}, "failed: deadlock"},
		{storage.Record{State: jobs.Failed, Error: "ERROR: could not serialize access (SQLSTATE 40001)"}, "failed: serialization failure"},
		{storage.Record{State: jobs.Failed, Error: "ERROR: division by zero (SQLSTATE 22012)"}, "failed: SQLSTATE 22012"},
		{storage.Record{State: jobs.Failed, Error: "no luck"}, "failed: other error"},
	} {
		if got := outcomeOf(c.run).String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.run, got, c.want)
		}
	}
}

func TestKindsAreInTheOrderOfARun(t *testing.T) {
	skipped, failed := outcome{jobs.Skipped, "overlap"}, outcome{jobs.Failed, "deadlock"}
	got := kinds(outcomes{skipped: 1, {jobs.Skipped, "lock_held"}: 2},
		outcomes{skipped: 1, failed: 1})
	want := []outcome{{state: jobs.Succeeded}, failed, {jobs.Skipped, "lock_held"}, skipped}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
