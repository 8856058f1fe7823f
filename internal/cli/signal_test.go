package cli

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A program that signals a process twice at once, such as timeout, must not end it at once.
func TestSignalsAtOnceAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 3)
		returned := make(chan os.Signal, 1)
		go func() { returned <- anotherSignal(signals) }()
		for _, s := range []struct {
			after time.Duration
			sent  os.Signal
			ends  bool
		}{
			{0, syscall.SIGTERM, false}, {oneSignal - time.Nanosecond, os.Interrupt, false},
			{time.Nanosecond, syscall.SIGTERM, true},
		} {
			time.Sleep(s.after)
			signals <- s.sent
			synctest.Wait()
			if ended := len(returned) > 0; ended != s.ends {
				t.Fatalf("%s after %s: ended is %t, want %t", s.sent, s.after, ended, s.ends)
			}
		}
		if got := <-returned; got != syscall.SIGTERM {
			t.Errorf("ended by %s, want the last signal", got)
		}
	})
}
