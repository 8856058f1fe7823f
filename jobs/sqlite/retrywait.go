package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// retryWaitsOf decodes the waits between the attempts of a run.
func retryWaitsOf(column *string) ([]storage.RetryWait, error) {
	if column == nil {
		return nil, nil
	}
	var stored []int64
	if err := json.Unmarshal([]byte(*column), &stored); err != nil {
		return nil, fmt.Errorf("retry waits: %w", err)
	}
	times := make([]time.Time, len(stored))
	for i, at := range stored {
		times[i] = fromMicros(at)
	}
	return storage.NewRetryWaits(times), nil
}

// retryWaitColumn returns the alternating times of begin and end, as stored.
func retryWaitColumn(waits []storage.RetryWait) (times []int64) {
	for _, wait := range waits {
		times = append(times, micros(wait.From))
		if wait.Until != nil {
			times = append(times, micros(*wait.Until))
		}
	}
	return times
}
