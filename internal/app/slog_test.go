package app

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSlogDurationsHaveAUnit checks that a duration of a line is a time.Duration for slog.
func TestSlogDurationsHaveAUnit(t *testing.T) {
	var text bytes.Buffer
	log := NewSlogWriter(slog.New(slog.NewTextHandler(&text, nil))).Logger()
	log.Info().Dur("took", 1500*time.Millisecond).Int("attempt", 2).Msg("run ended")
	if !strings.Contains(text.String(), "took=1.5s attempt=2") {
		t.Errorf("got %q, want took=1.5s attempt=2 in it", text.String())
	}
}

// TestDurations checks that the list of durations has all keys of the product's lines with a
// duration.
func TestDurations(t *testing.T) {
	var found []string
	duration := regexp.MustCompile(`\bDur\("(\w+)"`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"examples", "test"}, entry.Name()):
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range duration.FindAllSubmatch(source, -1) {
			found = append(found, string(match[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if got := strings.Join(slices.Compact(found), " "); got != durations {
		t.Errorf("got the keys %q in the code, want %q", got, durations)
	}
}
