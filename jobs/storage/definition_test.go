package storage

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestHashesAreThoseOfOtherReleases computes hashes of definitions that replicas of other releases
// have too. If a release changed the hashes, each job would have a new definition after a deploy.
func TestHashesAreThoseOfOtherReleases(t *testing.T) {
	hourly, err := schedule.Parse(schedule.Cron("0 * * * *"), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	table, err := locking.Table("sales", "public")
	if err != nil {
		t.Fatal(err)
	}
	whole := jobs.Job{Name: "rollup", Schedule: hourly, Handler: "sql", Database: "warehouse",
		Params:    json.RawMessage(`{"statement": "SELECT 1 < 2", "rows": 10}`),
		Resources: []locking.Request{{Resource: table, Mode: locking.Exclusive}},
		Wait:      retry.Policy{Attempts: 3, Delay: time.Second}, Reserve: time.Minute,
		Overlap: jobs.OverlapQueue, Misfire: jobs.MisfireRunAll,
		MisfireBy:        jobs.MisfireRules{Limit: 5, MaxAge: time.Hour},
		MisfireThreshold: time.Minute, Deadline: time.Hour, Timeout: 10 * time.Minute,
		Retry: retry.Policy{Attempts: 2, Delay: time.Second}, Group: "nightly",
		GroupLimits: jobs.GroupLimits{PerCluster: 2, PerReplica: 1}, Priority: 7, Recover: true,
		Hooks: []jobs.Hook{{Webhook: "ops"}, {Webhook: "chat"}}}
	for _, test := range []struct {
		job  jobs.Job
		hash string
	}{
		{jobs.Job{Name: "plain", Schedule: hourly, Handler: "work"},
			"b6c66c2d1b2ddc51023b7fb791466450"},
		{whole, "fff1064d0ec1c8c2be8ac8004cce696a"},
	} {
		requests, err := test.job.Requests()
		if err != nil {
			t.Fatal(err)
		}
		definition, err := Define(test.job, requests)
		if err != nil {
			t.Fatal(err)
		}
		if definition.Hash != test.hash {
			t.Errorf("job %s: got hash %s, want %s", test.job.Name, definition.Hash, test.hash)
		}
	}
}
