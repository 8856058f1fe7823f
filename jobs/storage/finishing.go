package storage

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
)

// Limits of what a run can store, in bytes of JSON.
const (
	MaxSaved  = attempt.MaxSaved  // of the state for the job's next run
	MaxResult = attempt.MaxResult // of the run's result
)

// MaxFinishBytes is the maximum text of several requests of Finish together, in bytes.
const MaxFinishBytes = 8 << 20

// text returns the bytes of text in the request.
func (r FinishRequest) text() int {
	return len(r.Detail) + len(r.Error) + len(r.Attempt.Detail) + len(r.Output) + len(r.Result) +
		len(r.Saved)
}

// Recorded reports whether a run with this state and token shows that an earlier try has recorded
// the request. token is 0 if the run has none.
func (r FinishRequest) Recorded(state jobs.State, token jobs.Token) bool {
	switch {
	case r.GivenBack: // the run may have a later claim by now
		return !state.Final() && token != r.Token
	case r.State == jobs.Waiting && token > r.Token:
		return true // another replica has made a further attempt: this one is stopping
	}
	return state == r.State && token == r.Token
}

// Weight returns the share of the request in MaxFinishBytes, at least MaxFinishBytes/MaxBatch.
// Requests with a total weight of at most MaxFinishBytes fit into one call.
func (r FinishRequest) Weight() int { return max(r.text(), MaxFinishBytes/MaxBatch) }

// CheckFinishes returns an error that wraps jobs.ErrTooLarge if the requests exceed MaxSaved,
// MaxResult or MaxFinishBytes.
func CheckFinishes(requests []FinishRequest) error {
	total := 0
	for _, r := range requests {
		switch {
		case len(r.Saved) > MaxSaved:
			return fmt.Errorf("state of run %s: %w: %d bytes of JSON, limit is %d", r.Run,
				jobs.ErrTooLarge, len(r.Saved), MaxSaved)
		case len(r.Result) > MaxResult:
			return fmt.Errorf("result of run %s: %w: %d bytes of JSON, limit is %d", r.Run,
				jobs.ErrTooLarge, len(r.Result), MaxResult)
		}
		total += r.text()
	}
	if total > MaxFinishBytes && len(requests) > 1 {
		return fmt.Errorf("finish %d runs: %w: %d bytes of text, limit is %d", len(requests),
			jobs.ErrTooLarge, total, MaxFinishBytes)
	}
	return nil
}
