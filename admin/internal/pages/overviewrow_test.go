package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
)

// The first of the failures that were read may not be the first failure.
func TestDurationsThatAreLowerBounds(t *testing.T) {
	now := time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)
	since := now.Add(-20 * time.Second)
	for _, c := range []struct {
		atLeast bool
		want    string
	}{{false, "for <time "}, {true, "for more than <time "}} {
		problem := cluster.Problem{Kind: cluster.KindJobFailing, Subject: "mails", Since: &since,
			AtLeast: c.atLeast}
		if got := problemRows(now, []cluster.Problem{problem}); !strings.Contains(string(got),
			c.want) {
			t.Errorf("at least %v: got the problem %s, want it with %s", c.atLeast, got, c.want)
		}
		group := cluster.FailingGroup{Jobs: []cluster.FailingJob{{Job: "mails", Failures: 20,
			AtLeast: c.atLeast, Since: since, Last: now}}}
		if got := failingRows(now, []cluster.FailingGroup{group}); !strings.Contains(string(got),
			c.want) {
			t.Errorf("at least %v: got the job %s, want it with %s", c.atLeast, got, c.want)
		}
	}
}
