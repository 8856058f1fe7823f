package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outputFormat is the value of the flag -o.
type outputFormat string

// The formats of the output.
const (
	tableFormat outputFormat = "table"
	wideFormat  outputFormat = "wide" // tables with all columns, in full
	jsonFormat  outputFormat = "json"
	yamlFormat  outputFormat = "yaml"
)

// outputFormats returns the names of all formats.
func outputFormats() []string {
	return []string{string(tableFormat), string(wideFormat), string(jsonFormat),
		string(yamlFormat)}
}

// Set implements pflag.Value.
func (f *outputFormat) Set(text string) error {
	if !slices.Contains(outputFormats(), text) {
		return fmt.Errorf("unknown format%s", suggest.Hint(text, outputFormats()))
	}
	*f = outputFormat(text)
	return nil
}

// String implements pflag.Value. The default is table.
func (f *outputFormat) String() string {
	if *f == "" {
		return string(tableFormat)
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *outputFormat) Type() string { return "format" }

// structured reports whether the output is for programs.
func (f outputFormat) structured() bool { return f == jsonFormat || f == yamlFormat }

// encode writes a value as JSON or YAML.
func (f outputFormat) encode(out io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	written := escapeJSON(text.Bytes())
	if f == yamlFormat {
		var err error
		if written, err = toYAML(written); err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
	}
	_, err := out.Write(written)
	return err
}

// print writes value as JSON or YAML, or rows as a table. Columns whose names begin with ~ are only
// in wide tables. Those with … are cut on a narrow terminal.
func (c *commandLine) print(value any, header string, rows [][]string) error {
	if c.format.structured() {
		return c.format.encode(c.out, value)
	}
	return c.table(header, rows)
}

// table writes rows as a table. On a terminal that is too narrow, columns whose names begin with …
// are cut.
func (c *commandLine) table(header string, rows [][]string) error {
	t := newTextTable(header, rows, c.format == wideFormat)
	t.fit(terminalWidth(c.out))
	return t.write(c.out)
}

// clock returns a time in UTC as one cell.
func clock(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// localTime returns a time with its weekday and zone.
func localTime(t time.Time) string {
	return t.Format("Mon 2006-01-02 15:04:05 MST")
}

// age returns the time from then to now as one cell.
func age(now time.Time, then *time.Time) string {
	if then == nil || then.IsZero() || now.IsZero() {
		return "-"
	}
	return now.Sub(*then).Round(time.Second).String()
}

// took returns the duration of a run as one cell.
func took(r storage.Record) string {
	length, ended := r.Took()
	if !ended {
		return "-"
	}
	return length.Round(time.Millisecond).String()
}

// waitsUntil returns the end of the wait of a run as one cell.
func waitsUntil(r storage.Record) string {
	switch end := r.WaitEnd; {
	case end == nil:
		return "-"
	case end.At.IsZero():
		return "no limit"
	case end.Next:
		return clock(&end.At) + " (next firing)"
	case end.Estimated:
		return "about " + clock(&end.At)
	default:
		return clock(&end.At)
	}
}

// why returns the reason, detail, error and blocker of a run as one cell.
func why(r storage.Record) string {
	var parts []string
	for _, part := range []string{string(r.Reason), r.Detail, r.Error} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if r.State == jobs.Waiting && r.BlockedBy != nil {
		parts = append(parts, r.BlockedBy.Words("is held by"))
	}
	return strings.Join(parts, ": ")
}
