package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// A start reads the floors of all its fences in one list, and the grants of each name in another
// statement. A floor that was taken for that of another name could hide a holder. The start wants
// names of two schemas, so it locks its fences in several statements.
func TestNewFiringsUseTheFloorOfEachName(t *testing.T) {
	t.Parallel()
	tables := []string{"a.t", "a.u", "b.t", "b.u"}
	for _, slots := range []bool{false, true} {
		for _, held := range append([]string{"a.*", "b.*"}, tables...) {
			t.Run(fmt.Sprintf("%s/slots=%v", held, slots), func(t *testing.T) {
				s := newHarness(t)
				session := s.session(s.a, "a")
				holder := request(t, "holder", held)
				s.granted(s.a, session, holder)
				key := holder.Requests[0].Resource.Key()
				s.fences(missing(s, allNames(request(t, "", tables...).Requests))...)
				s.exec("UPDATE holdfast.fences SET floor = 1000 WHERE resource <> $1", key)

				start := func(attempt string) []storage.StartOutcome {
					var requests []storage.StartRequest
					for _, table := range slices.Backward(tables) {
						r := request(t, attempt+" "+table, table)
						if slots {
							slot, err := locking.Slot("pool " + table)
							if err != nil {
								t.Fatal(err)
							}
							r.Requests = append(r.Requests, locking.Request{Resource: slot,
								Mode: locking.Slotted, Slots: 100})
						}
						requests = append(requests, r)
					}
					results, err := s.a.Start(t.Context(), session, requests)
					if err != nil {
						t.Fatal(err)
					}
					var outcomes []storage.StartOutcome
					for _, r := range slices.Backward(results) {
						outcomes = append(outcomes, r.Outcome)
					}
					return outcomes
				}
				var want []storage.StartOutcome
				for _, table := range tables {
					if table == held || table[:1]+".*" == held {
						want = append(want, storage.StartUndecided)
						continue
					}
					want = append(want, storage.StartGranted)
				}
				if got := start("first"); !slices.Equal(got, want) {
					t.Errorf("a start beside a holder of %s: got %v, want %v", held, got, want)
				}

				s.exec("DELETE FROM holdfast.grants WHERE resource <> $1", key)
				s.exec("UPDATE holdfast.fences SET floor = 1000 WHERE resource = $1", key)
				granted := slices.Repeat([]storage.StartOutcome{storage.StartGranted}, len(tables))
				if got := start("second"); !slices.Equal(got, granted) {
					t.Errorf("a start that must pass grants below the floor of %s: got %v, want %v",
						held, got, granted)
				}
			})
		}
	}
}

// missing returns the names that have no fence.
func missing(s *harness, names []string) []string {
	s.t.Helper()
	return query[[]string](s, "SELECT coalesce(array_agg(n), '{}') FROM unnest($1::text[]) n "+
		"WHERE n NOT IN (SELECT resource FROM holdfast.fences)", names)
}
