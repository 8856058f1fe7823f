package access

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestUsedStatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u usedStates
		for i := range maxUsedStates + 10 {
			time.Sleep(time.Millisecond)
			if state := strconv.Itoa(i); !u.use(state) || u.use(state) {
				t.Fatalf("state %d is not used once", i)
			}
		}
		if len(u.until) != maxUsedStates || !u.use("0") {
			t.Errorf("%d states, want %d, without the oldest", len(u.until), maxUsedStates)
		}
		time.Sleep(attemptLifetime + clockMargin)
		if !u.use("x") || len(u.until) != 1 {
			t.Errorf("%d states, want those that expired deleted", len(u.until))
		}
	})
}
