package cli

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTablesFitTheTerminal prints the reason of a pause on terminals and elsewhere.
func TestTablesFitTheTerminal(t *testing.T) {
	s := serve(t)
	reason := strings.TrimSpace(strings.Repeat("the table is being rebuilt ", 9))
	perform(t, nil, "pause", "weekly", "--reason", reason, "-c", s.config)
	pauses := func(columns uint16, more ...string) string {
		terminal := openScreen(t, columns)
		if err := performOn(t, terminal.terminal, io.Discard, append([]string{"pauses", "-c",
			s.config}, more...)...); err != nil {
			t.Error(err)
		}
		return terminal.text(t)
	}
	for _, columns := range []uint16{100, 140} {
		got := pauses(columns)
		lines := strings.Split(strings.TrimSpace(got), "\n")
		if len(lines) != 2 || !strings.Contains(got, "… ") || !strings.Contains(got, "the table") ||
			!strings.HasSuffix(lines[0], "RESUMED") {
			t.Errorf("%d columns: got %q, want the beginning of the reason", columns, got)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > int(columns) || n < int(columns)-20 {
				t.Errorf("%d columns: got a line of %d: %s", columns, n, line)
			}
		}
	}
	for name, got := range map[string]string{
		"wide":             pauses(100, "-o", "wide"),
		"wide enough":      pauses(400),
		"of unknown width": pauses(0),
		"no terminal":      perform(t, nil, "pauses", "-c", s.config).out,
	} {
		if !strings.Contains(got, reason) || strings.Contains(got, "…") {
			t.Errorf("%s: got %q, want the reason in full", name, got)
		}
	}
}
