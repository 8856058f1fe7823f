package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// restsOf decodes the rests between the attempts of a run.
func restsOf(column *string) ([]storage.Rest, error) {
	if column == nil {
		return nil, nil
	}
	var stored []int64
	if err := json.Unmarshal([]byte(*column), &stored); err != nil {
		return nil, fmt.Errorf("rests: %w", err)
	}
	times := make([]time.Time, len(stored))
	for i, at := range stored {
		times[i] = fromMicros(at)
	}
	return storage.NewRests(times), nil
}

// endRest ends the run's current rest, if any, when an attempt begins.
func (r *runRow) endRest(now int64) error {
	rests, err := restsOf(r.Rests)
	if err != nil || rests == nil {
		return err
	}
	var stored []int64
	for _, rest := range storage.EndRest(rests, fromMicros(now)) {
		stored = append(stored, micros(rest.From), micros(*rest.Until))
	}
	encoded, err := encode(stored)
	r.Rests = &encoded
	return err
}
