package holdfasttest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// SetClock moves the clock of the bubble forward to a time. Call it before [New]: nothing fires
// meanwhile, so it takes no time. A bubble begins at midnight UTC on 2000-01-01.
func SetClock(t testing.TB, at time.Time) {
	t.Helper()
	requireBubble(t, "SetClock")
	if now := time.Now(); at.Before(now) {
		t.Fatalf("set the clock to %s: it is %s, and a clock moves only forward", shown(at),
			shown(now))
	}
	time.Sleep(time.Until(at))
}

// requireBubble fails the test outside of a bubble, where time would pass for real.
func requireBubble(t testing.TB, function string) {
	t.Helper()
	if err := inBubble(); err != nil {
		t.Fatalf("holdfasttest.%s: %v: call it in the function of synctest.Test", function, err)
	}
}

// inBubble returns an error outside of a bubble. Package synctest has no other way to ask.
func inBubble() (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%v", value)
		}
	}()
	synctest.Wait()
	return nil
}

// shown returns a time for messages.
func shown(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
