package jobstest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunSignOuts checks a store of sign-outs. first and second are two connections to the same empty
// store, or one connection twice.
func RunSignOuts(t *testing.T, open func(t *testing.T) (first, second storage.SignOuts)) {
	end := func(t *testing.T, s storage.SignOuts, user string, keep time.Duration) int64 {
		t.Helper()
		generation, err := s.EndSignIns(t.Context(), user, keep)
		if err != nil {
			t.Fatal(err)
		}
		return generation
	}
	read := func(t *testing.T, s storage.SignOuts) map[string]int64 {
		t.Helper()
		found, err := s.Generations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for name, hold := range map[string]func(t *testing.T, first, second storage.SignOuts){
		"nobody has signed out": func(t *testing.T, first, _ storage.SignOuts) {
			if found := read(t, first); len(found) > 0 {
				t.Errorf("got generations %v, want none", found)
			}
		},
		"another replica sees the generation, which grows": func(t *testing.T,
			first, second storage.SignOuts) {
			vera, anna := end(t, first, "vera", time.Hour), end(t, first, "anna", time.Hour)
			if want := map[string]int64{"vera": vera, "anna": anna}; vera <= 0 || anna <= 0 ||
				!maps.Equal(read(t, second), want) {
				t.Errorf("got %v, want %v", read(t, second), want)
			}
			for _, s := range []storage.SignOuts{second, first, second} {
				next := end(t, s, "anna", time.Millisecond)
				if found := read(t, first); next <= anna || found["anna"] != next ||
					found["vera"] != vera {
					t.Errorf("after %d: %d, and all are %v", anna, next, found)
				}
				anna = next
			}
		},
		"a generation that nobody needs is left out, and the next one is larger": func(t *testing.T,
			first, _ storage.SignOuts) {
			before := end(t, first, "anna", 50*time.Millisecond)
			for len(read(t, first)) > 0 {
				if t.Context().Err() != nil {
					t.Fatal("generation that no cookie needs: got it in the list, want it left out")
				}
			}
			if next := end(t, first, "anna", time.Hour); next <= before {
				t.Errorf("%d after %d", next, before)
			}
		},
		"sign-outs at the same time have generations of their own": func(t *testing.T,
			first, second storage.SignOuts) {
			generations := make([]int64, 20)
			var ending sync.WaitGroup
			for i := range generations {
				ending.Go(func() {
					s := []storage.SignOuts{first, second}[i%2]
					var err error
					if generations[i], err = s.EndSignIns(t.Context(), "anna",
						time.Hour); err != nil {
						t.Error(err)
					}
				})
			}
			ending.Wait()
			seen, largest := make(map[int64]bool), int64(0)
			for _, generation := range generations {
				seen[generation], largest = true, max(largest, generation)
			}
			if found := read(t, first); len(seen) != len(generations) || found["anna"] != largest {
				t.Errorf("%v, and the store has %v", generations, found)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := open(t)
			hold(t, first, second)
		})
	}
}
