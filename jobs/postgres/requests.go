package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/locking"
)

// rawID is a uuid.UUID that pgx encodes and scans directly. As a driver.Valuer each id of a list
// would be converted by way of its text, at twenty times the cost.
type rawID = [16]byte

// storedRequest is a locking.Request in its stored form.
type storedRequest struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots,omitempty"`
}

func storedRequests(requests []locking.Request) []storedRequest {
	stored := make([]storedRequest, len(requests))
	for i, r := range requests {
		stored[i] = storedRequest{Resource: r.Resource.Key(), Mode: r.Mode, Slots: r.Slots}
	}
	return stored
}

func parseRequests(encoded []byte) ([]locking.Request, error) {
	var stored []storedRequest
	if err := json.Unmarshal(encoded, &stored); err != nil {
		return nil, fmt.Errorf("stored resources: %w", err)
	}
	return requestsOf(stored)
}

func requestsOf(stored []storedRequest) ([]locking.Request, error) {
	requests := make([]locking.Request, len(stored))
	for i, r := range stored {
		resource, err := locking.ParseKey(r.Resource)
		if err != nil {
			return nil, fmt.Errorf("stored resources: %w", err)
		}
		requests[i] = locking.Request{Resource: resource, Mode: r.Mode, Slots: r.Slots}
	}
	return requests, nil
}

// fenceGroup is a series of consecutive names, in byte order, that need the same row lock.
type fenceGroup struct {
	share bool
	names []string
}

// fenceGroups splits the names of the requests into groups. Locked one after the other, they form
// one sorted pass. The lock of a wanted name excludes all others. The lock of an ancestor excludes
// only requests for that name itself. A name wanted shared gets the exclusive lock too: with the
// lock of an ancestor, a reader of a schema and a writer of one of its tables would not exclude
// each other.
func fenceGroups(names names, wanted [][]locking.Request) []fenceGroup {
	alone := make([]bool, len(names))
	for _, requests := range wanted {
		for _, r := range requests {
			alone[names.place(r.Resource.Key())] = true
		}
	}
	var groups []fenceGroup
	for first, end := 0, 0; first < len(names); first = end {
		for end < len(names) && alone[end] == alone[first] {
			end++
		}
		groups = append(groups, fenceGroup{share: !alone[first], names: names[first:end]})
	}
	return groups
}

// fewFences is up to how many names a transaction looks for missing fences.
const fewFences = 32

// fencesToAdd returns those of the names whose fences a transaction adds if they are
// missing. These are the names that are not known to have a fence, if they are few: a lock that
// fails is an error in the log of PostgreSQL, and the fences of a job that starts rarely are
// missing each time. If many names are unknown, fencesToAdd returns none: looking for each of them
// costs more than the rare retry of a transaction that misses one (see sendAgain). If the store has
// lately missed a fence, more are probably missing, and fencesToAdd returns all unknown names. A
// retry adds all names.
func (s *Store) fencesToAdd(names names, retry bool) []string {
	if retry {
		return names
	}
	unknown := s.fences.unknown(names, time.Now())
	if len(unknown) <= fewFences || s.missedFence.lately() {
		return unknown
	}
	return nil
}

// queueFences locks the session, and the fences of the names in one sorted pass. The names are
// those of wanted. Most batches have three groups: the names of their jobs, the schemas of their
// tables, and the tables. These need one statement. It returns a function that makes the fences
// known, for a caller whose transaction has committed.
func (s *Store) queueFences(b *pgx.Batch, session uuid.UUID, names names,
	wanted [][]locking.Request) (noteKnown func()) {
	asked := time.Now()
	groups := fenceGroups(names, wanted)
	next := func(share bool) []string {
		if len(groups) == 0 || groups[0].share != share {
			return []string{}
		}
		names := groups[0].names
		groups = groups[1:]
		return names
	}
	var old []string
	for first := true; first || len(groups) > 0; first = false {
		b.Queue(lockFences, session, next(false), next(true), next(false)).
			QueryRow(func(row pgx.Row) error {
				var names []string
				err := row.Scan(&names, nil, nil)
				old = append(old, names...)
				return err
			})
	}
	return func() { s.fences.note(without(names, old), asked) }
}

// without returns the names that are not in old, which it sorts.
func without(names names, old []string) names {
	if len(old) == 0 {
		return names
	}
	slices.Sort(old)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, isOld := slices.BinarySearch(old, name)
		return isOld
	})
}
