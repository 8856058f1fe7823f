package jobstest

import (
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// StoredRun returns the Run of a granted start as its handler receives it.
func StoredRun(store storage.RunStore, r storage.StartRequest, token jobs.Token) *jobs.Run {
	return jobs.Run{
		ID: r.Run, Job: r.Firing.Job, ScheduledAt: r.Firing.ScheduledAt, Key: r.Firing.Key,
		Attempt: r.Attempt, Recovery: r.Firing.Recovery, Token: token,
	}.With(attempt.NewKey(), &storage.Attempt{Store: store, NewLog: zerolog.Nop,
		Output: output.NewTail(output.Max)})
}
