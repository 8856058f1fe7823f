package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
)

// TestConsoleLog checks the order of the fields of a line and the units of durations.
func TestConsoleLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // it is read below
	log, _, _ := NewLog(configs.Log{Level: "info", Format: "console"}, out)
	line := func(write func(*zerolog.Event)) string {
		t.Helper()
		if err := out.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		write(log.Warn().Str("replica", "web-1").Str("job", "rollup-sales"))
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(written)
		if _, err := time.Parse("15:04:05.000", text[:12]); err != nil {
			t.Errorf("got %q, want the time first", text)
		}
		return strings.TrimSpace(text[12:])
	}
	ended := line(func(e *zerolog.Event) {
		e.Str("run", "01a20779").Int("token", 7).Dur("took", 8027693*time.Nanosecond).
			Str("reason", "").Int("attempt", 1).Str("state", "failed").
			Err(errors.New("exit status 3")).Msg("run ended")
	})
	const want = `WRN run ended job=rollup-sales state=failed took=8.03ms error="exit status 3" ` +
		`attempt=1 replica=web-1 run=01a20779 token=7`
	if ended != want {
		t.Errorf("got  %s\nwant %s", ended, want)
	}
	if got := line(func(e *zerolog.Event) {
		e.Dur("again_in", 4321*time.Millisecond).Str("job", "a b").Msg("x")
	}); got != `WRN x job="a b" again_in=4.32s replica=web-1` {
		t.Errorf("got %s", got)
	}
}

func TestRoundDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234: "1µs", 1234567: "1.23ms", 12345678: "12.3ms", 123456789: "123ms",
		1234567891: "1.23s", 12345678912: "12.3s", 123456789123: "2m3s", -1234567891: "-1.23s",
	} {
		if got := roundDuration(d).String(); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}
