package postgres

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Runs that end with their first attempt must not pay for the attempts of others.
func TestOnlyRetriesAddAStatementToAFinish(t *testing.T) {
	t.Parallel()
	statements := func(states ...jobs.State) int {
		var requests []storage.FinishRequest
		for n, state := range states {
			requests = append(requests, storage.FinishRequest{Run: uuid.New(),
				Token: jobs.Token(n + 1), State: state})
		}
		var b pgx.Batch
		queueFinish(&b, requests, make([]bool, len(requests)))
		return b.Len()
	}
	one := statements(jobs.Succeeded)
	if n := statements(jobs.Failed, jobs.TimedOut, jobs.Succeeded); n != one {
		t.Errorf("%d statements for three ends, want %d as for one", n, one)
	}
	if n := statements(jobs.Waiting, jobs.Succeeded, jobs.Waiting); n != one+1 {
		t.Errorf("%d statements with two retries, want %d", n, one+1)
	}
	const want = 1 // finishRuns
	if one != want {
		t.Errorf("%d statements for one end, want %d", one, want)
	}
}
