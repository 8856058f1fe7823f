package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
)

// The level of a log can change, also for the loggers that were derived from it. The fields of an
// event below the level are not encoded.
func TestLogLevelChanges(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // it is read below
	log, _, level := NewLog(configs.Log{Level: "info", Format: "json"}, out)
	derived := log.With().Str("job", "a").Logger()
	enabled := func() [3]bool {
		return [3]bool{derived.Debug().Enabled(), derived.Info().Enabled(),
			derived.Warn().Enabled()}
	}
	for _, c := range []struct {
		level string
		want  [3]bool
	}{
		{"info", [3]bool{false, true, true}},
		{"debug", [3]bool{true, true, true}},
		{"warn", [3]bool{false, false, true}},
	} {
		level.set(c.level)
		if got := enabled(); got != c.want {
			t.Errorf("%s: debug, info and warn are enabled: %v, want %v", c.level, got, c.want)
		}
	}
	sampled := derived.Sample(&zerolog.BasicSampler{N: 1})
	sampled.Info().Msg("left out")
	sampled.Warn().Msg("written")
	written, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(written); strings.Contains(text, "left out") ||
		!strings.Contains(text, "written") {
		t.Errorf("with another sampler and the level warn, the log is %q", text)
	}
}

// A log that a slog.Handler writes has the levels of the handler.
func TestSlogHasTheLevelsOfItsHandler(t *testing.T) {
	handler := slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})
	log := NewSlogWriter(slog.New(handler)).Logger()
	for level, want := range map[zerolog.Level]bool{zerolog.TraceLevel: false,
		zerolog.DebugLevel: false, zerolog.InfoLevel: false, zerolog.WarnLevel: true,
		zerolog.ErrorLevel: true} {
		if got := log.WithLevel(level).Enabled(); got != want {
			t.Errorf("%s is enabled: %v, want %v", level, got, want)
		}
	}
}
