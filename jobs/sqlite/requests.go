package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// storedRequest is a locking.Request in its stored form: in a job's definition, and as a row of
// grants or wants.
type storedRequest struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots"`
}

func storeRequest(r locking.Request) storedRequest {
	return storedRequest{Resource: r.Resource.Key(), Mode: r.Mode, Slots: r.Slots}
}

func (s storedRequest) request() (locking.Request, error) {
	resource, err := locking.ParseKey(s.Resource)
	if err != nil {
		return locking.Request{}, fmt.Errorf("stored resource: %w", err)
	}
	return locking.Request{Resource: resource, Mode: s.Mode, Slots: s.Slots}, nil
}

func storeRequests(requests []locking.Request) []storedRequest {
	stored := make([]storedRequest, len(requests))
	for i, r := range requests {
		stored[i] = storeRequest(r)
	}
	return stored
}

func decodeRequests(encoded string) ([]locking.Request, error) {
	var stored []storedRequest
	if err := json.Unmarshal([]byte(encoded), &stored); err != nil {
		return nil, fmt.Errorf("stored resources: %w", err)
	}
	requests := make([]locking.Request, len(stored))
	for i, r := range stored {
		var err error
		if requests[i], err = r.request(); err != nil {
			return nil, err
		}
	}
	return requests, nil
}

// grantRow and wantRow are new rows of those tables.
type grantRow struct {
	storedRequest
	token int64
}

func (r grantRow) values() []any { return []any{r.Resource, r.Mode, r.Slots, r.token} }

type wantRow struct {
	storedRequest
	run uuid.UUID
}

func (r wantRow) values() []any { return []any{r.Resource, r.Mode, r.Slots, r.run} }

func wantRows(run uuid.UUID, requests []locking.Request) []wantRow {
	rows := make([]wantRow, len(requests))
	for i, r := range requests {
		rows[i] = wantRow{storeRequest(r), run}
	}
	return rows
}

// ownNames returns the keys of the resources, without duplicates.
func ownNames(requests []locking.Request) []string {
	names := make([]string, 0, len(requests))
	for _, r := range requests {
		names = append(names, r.Resource.Key())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lookedAt returns the keys of the resources and of their ancestors, without duplicates.
func lookedAt(requests []locking.Request) []string {
	names := ownNames(requests)
	for _, r := range requests {
		for _, above := range r.Resource.Ancestors() {
			names = append(names, above.Key())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
