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

// fenceNames returns the names and all their ancestors, sorted in byte order.
func fenceNames(requests []locking.Request) []string {
	var names []string
	for _, r := range requests {
		names = append(names, r.Resource.Key())
		for _, above := range r.Resource.Ancestors() {
			names = append(names, above.Key())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fenceGroup is a series of consecutive names, in byte order, that need the same row lock.
type fenceGroup struct {
	share bool
	names []string
}

// fenceGroups splits the fences of the requests into groups. Locked one after the other, they form
// one sorted pass. The lock of a wanted name excludes all others. The lock of an ancestor excludes
// only requests for that name itself. A name wanted shared gets the exclusive lock too: with the
// lock of an ancestor, a reader of a schema and a writer of one of its tables would not exclude
// each other.
func fenceGroups(requests []locking.Request) []fenceGroup {
	alone := map[string]bool{}
	for _, r := range requests {
		alone[r.Resource.Key()] = true
	}
	var groups []fenceGroup
	for _, name := range fenceNames(requests) {
		if last := len(groups) - 1; last >= 0 && groups[last].share == !alone[name] {
			groups[last].names = append(groups[last].names, name)
			continue
		}
		groups = append(groups, fenceGroup{share: !alone[name], names: []string{name}})
	}
	return groups
}

// fewFences is up to how many names a transaction looks for missing fences.
const fewFences = 32

// fencesToAdd returns the names in the requests whose fences a transaction adds if they are
// missing. These are the names that are not known to have a fence, if they are few: a lock that
// fails is an error in the log of PostgreSQL, and the fences of a job that starts rarely are
// missing each time. If many names are unknown, fencesToAdd returns none: looking for each of them
// costs more than the rare retry of a transaction that misses one (see sendAgain). If the store has
// lately missed a fence, more are probably missing, and fencesToAdd returns all unknown names. A
// retry adds all names.
func (s *Store) fencesToAdd(requests []locking.Request, retry bool) []string {
	names := fenceNames(requests)
	if retry {
		return names
	}
	unknown := s.fences.unknown(names, time.Now())
	if len(unknown) <= fewFences || s.missedFence.lately() {
		return unknown
	}
	return nil
}

// queueFences locks the session, and the fences of the requests in one sorted pass. Most batches
// have three groups: the names of their jobs, the schemas of their tables, and the tables. These
// need one statement. It returns a function that makes the fences known, for a caller whose
// transaction has committed.
func (s *Store) queueFences(b *pgx.Batch, session uuid.UUID,
	requests []locking.Request) (noteKnown func()) {
	asked := time.Now()
	groups := fenceGroups(requests)
	next := func(share bool) []string {
		if len(groups) == 0 || groups[0].share != share {
			return []string{}
		}
		names := groups[0].names
		groups = groups[1:]
		return names
	}
	old := map[string]bool{}
	for first := true; first || len(groups) > 0; first = false {
		b.Queue(lockFences, session, next(false), next(true), next(false)).
			QueryRow(func(row pgx.Row) error {
				var names []string
				err := row.Scan(&names, nil, nil)
				for _, name := range names {
					old[name] = true
				}
				return err
			})
	}
	return func() {
		s.fences.note(slices.DeleteFunc(fenceNames(requests),
			func(name string) bool { return old[name] }), asked)
	}
}

// probe is one name to look up for a request: its own, or an ancestor's.
type probe struct {
	request locking.Request
	name    string
	own     bool
	deep    bool // own, and there may be names beneath it
}

func probes(requests []locking.Request) []probe {
	var all []probe
	for _, r := range requests {
		all = append(all, probe{request: r, name: r.Resource.Key(), own: true,
			deep: mayHaveDescendants(r.Resource)})
		for _, above := range r.Resource.Ancestors() {
			all = append(all, probe{request: r, name: above.Key()})
		}
	}
	return all
}

// probeColumns returns the columns of the probes of each id.
func probeColumns(ids []rawID, wanted [][]locking.Request) []any {
	var owners []rawID
	var names, modes []string
	var slots []int
	var own, deep []bool
	for i, requests := range wanted {
		for _, p := range probes(requests) {
			owners, names, modes = append(owners, ids[i]), append(names, p.name),
				append(modes, string(p.request.Mode))
			slots, own, deep = append(slots, p.request.Slots), append(own, p.own),
				append(deep, p.deep)
		}
	}
	return []any{owners, names, modes, slots, own, deep}
}

// mayHaveDescendants is false for schema/table, which has no descendants, and for names that are no
// paths.
func mayHaveDescendants(r locking.Resource) bool {
	return r.Kind().HasHierarchy() && (r.Kind() != locking.KindTable || len(r.Ancestors()) == 0)
}
