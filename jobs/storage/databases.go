package storage

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/internal/output"
)

// DatabaseState is the state of a database of jobs, other than the store, by the last check of a
// replica.
type DatabaseState struct {
	Name string `json:"database"`
	// Error is why the replica does not start the jobs of the database; "" if it does.
	Error string `json:"error,omitempty"`
	// Since is the time of the first check with this result, by the clock of the replica; zero
	// before the first check.
	Since time.Time `json:"since,omitzero"`
}

// maxDatabaseError is how much of an error a store keeps, in bytes.
const maxDatabaseError = 300

// EncodeDatabases returns the states as JSON for a store. It shortens errors.
func EncodeDatabases(states []DatabaseState) (string, error) {
	plain := make([]DatabaseState, len(states))
	for i, s := range states {
		plain[i] = DatabaseState{s.Name, output.PlainText(output.Cut(s.Error, maxDatabaseError)),
			s.Since.UTC()}
	}
	encoded, err := json.Marshal(plain)
	return string(encoded), err
}

// DecodeDatabases returns the states of a text of EncodeDatabases, or nil if it cannot read the
// text. A replica of another version may have written it, and a heartbeat must not fail because of
// it.
func DecodeDatabases(encoded string) []DatabaseState {
	var states []DatabaseState
	if err := json.Unmarshal([]byte(encoded), &states); err != nil || len(states) == 0 {
		return nil
	}
	return states
}
