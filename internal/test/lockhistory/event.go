package lockhistory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Kind is the kind of an Event.
type Kind string

// The kinds of event. Each call has at most one answer. A call has no answer if its process died.
const (
	Acquire Kind = "acquire" // a call, with Requests
	// its answers: with Token, and Session if known
	Granted        Kind = "granted"
	Refused        Kind = "refused"         // another lock holds it
	AcquireUnclear Kind = "acquire_unclear" // any other error

	Release        Kind = "release"
	Released       Kind = "released"        // it was held until now
	NotHeld        Kind = "not_held"        // it was lost before
	ReleaseUnclear Kind = "release_unclear" // any other error

	Lost Kind = "lost" // the lock's context ended without a release

	Commit        Kind = "commit"         // a fenced transaction, with Number
	Committed     Kind = "committed"      // its answers
	Superseded    Kind = "superseded"     // the fence refused it
	CommitUnclear Kind = "commit_unclear" // any other error

	Confirmed Kind = "confirmed" // Session was opened or renewed; At is the time of the request
	Ending    Kind = "ending"    // Session is about to be ended
	Succeeds  Kind = "succeeds"  // Session is about to be opened, and to end all others of Replica

	Returning Kind = "returning" // the claim of Token is about to be released

	Note Kind = "note" // a text, such as a fault
)

// Event is one line of a process's history.
type Event struct {
	At      int64  `json:"at"` // by Now
	Process string `json:"process"`
	Kind    Kind   `json:"kind"`
	// id of the lock, unique in all processes, new for each Acquire
	Lock     string        `json:"lock,omitempty"`
	Requests []Request     `json:"requests,omitempty"`
	Token    locking.Token `json:"token,omitempty"`
	Number   int           `json:"number,omitempty"` // of the lock's commits
	// of Granted: when its claim was requested, if known
	From    int64     `json:"from,omitempty"`
	Session uuid.UUID `json:"session,omitzero"`
	TTL     int64     `json:"ttl,omitempty"` // of a Confirmed session, in nanoseconds
	Replica string    `json:"replica,omitempty"`
	Text    string    `json:"text,omitempty"`
}

// Request is a locking.Request that can be encoded.
type Request struct {
	locking.Request
}

type writtenRequest struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots,omitempty"`
}

// MarshalJSON writes the resource by its key.
func (r Request) MarshalJSON() ([]byte, error) {
	return json.Marshal(writtenRequest{r.Resource.Key(), r.Mode, r.Slots})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Request) UnmarshalJSON(text []byte) error {
	var w writtenRequest
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	resource, err := locking.ParseKey(w.Resource)
	r.Request = locking.Request{Resource: resource, Mode: w.Mode, Slots: w.Slots}
	return err
}

// String returns a text such as "exclusive path:a/b" or "slot of 3 path:api".
func (r Request) String() string {
	if r.Mode == locking.Slotted {
		return fmt.Sprintf("slot of %d %s", r.Slots, r.Resource.Key())
	}
	return fmt.Sprintf("%s %s", r.Mode, r.Resource.Key())
}

// Read reads the events of one process. It ignores an incomplete last line: the process was killed
// during the write and did nothing after it.
func Read(from io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("history line %d, %q: %w", len(events)+1, bytes.TrimSpace(line),
				err)
		}
		events = append(events, e)
	}
}
