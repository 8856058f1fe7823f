package crontab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// Write writes the jobs as YAML, each below its line of the crontab, and skipped lines as comments.
func (t Table) Write(out io.Writer) error {
	var b bytes.Buffer
	b.WriteString("jobs:\n")
	entries, skipped := t.Entries, t.Skipped
	if len(entries) == 0 {
		b.Reset()
		b.WriteString("jobs: []\n")
	}
	for len(entries) > 0 || len(skipped) > 0 {
		if len(skipped) > 0 && (len(entries) == 0 || skipped[0].Line < entries[0].Line) {
			fmt.Fprintf(&b, "  # line %d has no job: %s\n", skipped[0].Line,
				oneLine(skipped[0].Text))
			skipped = skipped[1:]
			continue
		}
		entries[0].write(&b)
		entries = entries[1:]
	}
	_, err := out.Write(b.Bytes())
	return err
}

// maxDescription bounds the comment that becomes a description, in bytes.
const maxDescription = 200

func (e Entry) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "  - name: %s # line %d\n", plainOrQuoted(e.Name), e.Line)
	if e.Comment != "" && len(e.Comment) <= maxDescription {
		fmt.Fprintf(b, "    description: %s\n", quote(e.Comment))
	}
	fmt.Fprintf(b, "    schedule: %s\n", quote(e.Schedule))
	if e.Timezone != "" {
		fmt.Fprintf(b, "    timezone: %s\n", quote(e.Timezone))
	}
	if e.User != "" {
		fmt.Fprintf(b, "    # cron runs it as %s\n", oneLine(e.User))
	}
	b.WriteString("    handler: command\n    # tables: []  # the tables that it writes\n" +
		"    params:\n")
	quoted := make([]string, len(e.Command))
	for i, word := range e.Command {
		quoted[i] = quote(literal(word))
	}
	fmt.Fprintf(b, "      command: [%s]\n", strings.Join(quoted, ", "))
	if e.Dir != "" {
		fmt.Fprintf(b, "      dir: %s\n", quote(e.Dir))
	}
	if len(e.Env) > 0 {
		b.WriteString("      env:\n")
		for _, name := range slices.Sorted(maps.Keys(e.Env)) {
			fmt.Fprintf(b, "        %s: %s\n", quote(name), quote(literal(e.Env[name])))
		}
	}
}

// plainOrQuoted returns a name as YAML. YAML reads some names as numbers and other values.
func plainOrQuoted(name string) string {
	if name[0] < 'a' || name[0] > 'z' || slices.Contains([]string{"true", "false", "null", "yes",
		"no", "on", "off", "y", "n", "inf", "nan"}, name) {
		return quote(name)
	}
	return name
}

// literal returns text in which the handler "command" finds no template.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

// quote returns a YAML scalar for text, in which the configuration expands no variable.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// A string has no encoding errors: invalid UTF-8 is replaced.
	_ = e.Encode(strings.ReplaceAll(text, "${", "$${"))
	return strings.TrimSuffix(b.String(), "\n")
}

func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if runes.IsControl(c) || c == 0x2028 || c == 0x2029 {
			return ' '
		}
		return c
	}, text)
}
