package records

import (
	"context"
	"testing"
	"time"
)

// TestKeyedCachesEachParameter checks that each parameter has a result of its own, and that the one
// that was not used for longest is forgotten.
func TestKeyedCachesEachParameter(t *testing.T) {
	asked := make(map[int]int)
	c := NewKeyed(time.Minute, func(_ context.Context, key int, _ time.Time) (int, error) {
		asked[key]++
		return 10 * key, nil
	})
	now := time.Unix(1000, 0)
	get := func(key, wantAsked int) {
		t.Helper()
		if got, err := c.Get(t.Context(), key, now); err != nil || got != 10*key {
			t.Errorf("of %d: %d, %v", key, got, err)
		}
		if asked[key] != wantAsked {
			t.Errorf("%d was queried %d times, want %d", key, asked[key], wantAsked)
		}
	}
	for key := range maxKeyed {
		get(key, 1)
	}
	get(0, 1)        // used again
	get(maxKeyed, 1) // one too many: 1 is forgotten
	get(0, 1)
	get(1, 2)
	now = now.Add(time.Minute)
	get(0, 2)
}
