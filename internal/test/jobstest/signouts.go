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
	end := func(t *testing.T, s storage.SignOuts, user string, generation int64,
		keep time.Duration) {
		t.Helper()
		if err := s.EndSignIns(t.Context(), user, generation, keep); err != nil {
			t.Fatal(err)
		}
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
			end(t, first, "vera", 7, time.Hour)
			want := map[string]int64{"vera": 7}
			for i, s := range []storage.SignOuts{first, second, first, second} {
				want["anna"] = int64(100 + i)
				end(t, s, "anna", want["anna"], time.Millisecond)
				if found := read(t, first); i > 0 && !maps.Equal(found, want) {
					t.Errorf("got %v, want %v", found, want)
				}
				end(t, s, "anna", want["anna"], time.Hour) // again, because the answer was lost
				if found := read(t, second); !maps.Equal(found, want) {
					t.Errorf("after a repetition: got %v, want %v", found, want)
				}
			}
		},
		"an earlier sign-out that comes late changes nothing": func(t *testing.T,
			first, second storage.SignOuts) {
			end(t, first, "anna", 9, time.Hour)
			end(t, second, "anna", 8, time.Hour)
			if found := read(t, first); found["anna"] != 9 {
				t.Errorf("got generation %d, want 9", found["anna"])
			}
		},
		"a generation that nobody needs is left out": func(t *testing.T, first, _ storage.SignOuts) {
			end(t, first, "anna", 5, 50*time.Millisecond)
			for len(read(t, first)) > 0 {
				if t.Context().Err() != nil {
					t.Fatal("generation that no cookie needs: got it in the list, want it left out")
				}
			}
			end(t, first, "anna", 6, time.Hour)
			if found := read(t, first); found["anna"] != 6 {
				t.Errorf("got generation %d, want 6", found["anna"])
			}
		},
		"of sign-outs at the same time, the latest generation stays": func(t *testing.T,
			first, second storage.SignOuts) {
			var ending sync.WaitGroup
			for i := range 20 {
				ending.Go(func() {
					s := []storage.SignOuts{first, second}[i%2]
					if err := s.EndSignIns(t.Context(), "anna", int64(i+1),
						time.Hour); err != nil {
						t.Error(err)
					}
				})
			}
			ending.Wait()
			if found := read(t, first); found["anna"] != 20 {
				t.Errorf("got generation %d, want 20", found["anna"])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := open(t)
			hold(t, first, second)
		})
	}
}
