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

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o breaker.Breaker
		var log bytes.Buffer
		lasts := func(want bool) {
			t.Helper()
			if o.Lasts() != want {
				t.Errorf("lasts %v, expected %v", o.Lasts(), want)
			}
		}
		note := func(silent bool, lines int) {
			t.Helper()
			o.Note(zerolog.New(&log), errors.New("refused"), silent, "decided elsewhere")
			if got := strings.Count(log.String(),
				`"error":"refused","message":"decided elsewhere"`); got != lines {
				t.Errorf("%d lines, expected %d: %s", got, lines, log.String())
			}
		}
		lasts(false)
		note(false, 1)
		lasts(false)
		note(true, 1)
		lasts(true)
		time.Sleep(2*time.Second - time.Nanosecond)
		lasts(true)
		time.Sleep(time.Nanosecond)
		lasts(false)
		note(true, 1)
		time.Sleep(time.Second)
		note(true, 1)
		time.Sleep(time.Second)
		lasts(true)
		time.Sleep(6 * time.Second)
		lasts(false)
		note(false, 1)
		time.Sleep(time.Nanosecond)
		note(false, 2)
	})
}
