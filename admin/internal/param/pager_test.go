package param

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTrim reads a list forwards and backwards, with one entry more than the limit where the store
// returns as many.
func TestTrim(t *testing.T) {
	const most = storage.MaxBatch
	for _, c := range []struct {
		entries, limit           int
		givenNext, givenPrevious bool
		first, page              int
		next, previous           bool
	}{
		{entries: 3, limit: 3, page: 3},
		{entries: 4, limit: 3, page: 3, next: true},
		{entries: 4, limit: 3, givenNext: true, page: 3, next: true, previous: true},
		{entries: 3, limit: 3, givenPrevious: true, page: 3, next: true},
		{entries: 4, limit: 3, givenPrevious: true, first: 1, page: 3, next: true, previous: true},
		{entries: most - 1, limit: most, page: most - 1},
		{entries: most, limit: most, page: most, next: true},
		{entries: most, limit: most, givenPrevious: true, page: most, next: true, previous: true},
	} {
		list := make([]int, c.entries)
		for i := range list {
			list[i] = i
		}
		want := slices.Clone(list[c.first : c.first+c.page])
		page, next, previous := Trim(list, c.limit, c.givenNext, c.givenPrevious)
		if !slices.Equal(page, want) || next != c.next || previous != c.previous {
			t.Errorf("%+v: got %d entries, next %t, previous %t", c, len(page), next, previous)
		}
	}
}
