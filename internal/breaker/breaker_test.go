package breaker_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/breaker"
)

func TestOpensForTwoSecondsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		var log bytes.Buffer
		expectOpen := func(want bool) {
			t.Helper()
			if b.Open() != want {
				t.Errorf("open: %v, want %v", b.Open(), want)
			}
		}
		fail := func(unreachable bool, lines int) {
			t.Helper()
			b.Fail(zerolog.New(&log), errors.New("refused"), unreachable, "decided elsewhere")
			if got := strings.Count(log.String(),
				`"error":"refused","message":"decided elsewhere"`); got != lines {
				t.Errorf("%d lines, want %d: %s", got, lines, log.String())
			}
		}
		expectOpen(false)
		fail(false, 1)
		expectOpen(false)
		fail(true, 1)
		expectOpen(true)
		time.Sleep(2*time.Second - time.Nanosecond)
		expectOpen(true)
		time.Sleep(time.Nanosecond)
		expectOpen(false)
		fail(true, 1)
		time.Sleep(time.Second)
		fail(true, 1)
		time.Sleep(time.Second)
		expectOpen(true)
		time.Sleep(6 * time.Second)
		expectOpen(false)
		fail(false, 1)
		time.Sleep(time.Nanosecond)
		fail(false, 2)
	})
}
