package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
)

// The test explains the decisions that replicas took.
func TestExplainAsFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{job(t, "extract", time.Minute), dependent(t, "load", "extract"),
			job(t, "slow", time.Minute, "orders"), once(t, "blocked", 61*time.Second, "orders")}
		slow := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "slow" {
				time.Sleep(20 * time.Second)
			}
			if run.Job == "extract" && run.ScheduledAt.Minute() == 2 {
				return errors.New("boom")
			}
			return nil
		})
		stop := c.start(c.options("a", []jobs.Registration{slow}, table...))
		time.Sleep(3*time.Minute + 10*time.Second)
		x := explain.New(explain.Options{Store: c.store, Table: explain.TableOf(table)})
		for _, want := range []struct {
			job, at string
			verdict explain.Verdict
		}{
			{"extract", "2000-01-01 00:01", explain.VerdictRan}, {"load", "2000-01-01 00:01", explain.VerdictRan},
			{"load", "2000-01-01 00:02", explain.VerdictDependencyFailed}, {"load", "2000-01-01 00:02:30", explain.VerdictNotScheduled},
			{"load", "2000-01-01 00:04", explain.VerdictFuture}, {"slow", "2000-01-01 00:03", explain.VerdictRunning},
			{"blocked", "2000-01-01 00:01:01", explain.VerdictSkipped}, {"slow", "1999-12-31 23:59", explain.VerdictNotCounted},
			{"slow", "1999-11-01 00:00", explain.VerdictForgotten},
		} {
			e, err := x.Explain(t.Context(), want.job, want.at)
			if err != nil || e.Verdict != want.verdict || len(e.Notes) > 0 {
				t.Errorf("%s at %s: %s: %s %q %v, want %s", want.job, want.at, e.Verdict,
					e.Summary, e.Notes, err, want.verdict)
			}
		}
		stop()
	})
}
