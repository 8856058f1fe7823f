package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// The facts of a run, by the names that statements and templates use.
const (
	scheduledAt         = "scheduled_at"
	previousScheduledAt = "previous_scheduled_at" // see jobs.Run.PreviousScheduledAt
	runID               = "run_id"
	jobName             = "job"
	fencingToken        = "token"
	attemptNumber       = "attempt"
)

// factTypes are the PostgreSQL types of the facts.
var factTypes = map[string]string{
	scheduledAt: "timestamptz", previousScheduledAt: "timestamptz", runID: "uuid", jobName: "text",
	fencingToken: "bigint", attemptNumber: "integer",
}

// factsOf returns the facts of a run. The previous scheduled time is nil if there is none, or if
// it is not wanted: it is the only one that must be read from the store.
func factsOf(ctx context.Context, run *jobs.Run, previous bool) (map[string]any, error) {
	facts := map[string]any{
		scheduledAt: run.ScheduledAt.UTC(), previousScheduledAt: nil, runID: run.ID,
		jobName: run.Job, fencingToken: int64(run.Token), attemptNumber: int64(run.Attempt),
	}
	if !previous {
		return facts, nil
	}
	at, err := run.PreviousScheduledAt(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", previousScheduledAt, err)
	}
	if !at.IsZero() {
		facts[previousScheduledAt] = at
	}
	return facts, nil
}

// Values are values with names for statements (@region) and templates ({{region}}): texts, whole
// numbers (int64), other numbers (float64), booleans and null. A name consists of letters of ASCII,
// digits and _, and does not start with a digit.
//
// The facts of the run have the names scheduled_at, previous_scheduled_at, run_id, job, token and
// attempt, which values cannot have. previous_scheduled_at is null, and empty in templates, if no
// run of an earlier scheduled time has succeeded.
type Values map[string]any

// UnmarshalJSON parses whole numbers as int64, because a float64 would change large keys.
func (v *Values) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var values map[string]any
	if err := decoder.Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return errors.New("expected a mapping of names to values")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		converted, err := argument(values[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		values[name] = converted
	}
	*v = values
	return nil
}

// check adds the mistakes in the names.
func (v Values) check(problems *problemList) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if factTypes[name] != "" {
			problems.add("values", "found %s, which the scheduler sets; expected another name",
				name)
		} else if !isName(name) {
			problems.add("values", "found the name %q, expected letters, digits and _", name)
		}
	}
}

// has reports whether there is such a value or fact.
func (v Values) has(name string) bool {
	_, found := v[name]
	return found || factTypes[name] != ""
}

// names returns the names of all values and facts, sorted.
func (v Values) names() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(factTypes) {
			if !yield(name) {
				return
			}
		}
		maps.Keys(v)(yield)
	})
}

// isName reports whether a value can have the name.
func isName(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && !('a' <= c|0x20 && c|0x20 <= 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// text returns a value as templates write it. Times are RFC 3339 in UTC, and null is empty.
func text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case time.Time:
		return value.UTC().Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
