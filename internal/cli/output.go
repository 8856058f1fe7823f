package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outputFormat is the value of the flag -o.
type outputFormat string

// Set implements pflag.Value.
func (f *outputFormat) Set(text string) error {
	if text != "table" && text != "json" {
		return errors.New(`expected "table" or "json"`)
	}
	*f = outputFormat(text)
	return nil
}

// String implements pflag.Value. The default is table.
func (f *outputFormat) String() string {
	if *f == "" {
		return "table"
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *outputFormat) Type() string { return "format" }

// print writes value as JSON, or rows as a table.
func (c *commandLine) print(value any, header string, rows [][]string) error {
	if c.format == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(table, "\t")
			}
			fmt.Fprint(table, printable(cell))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// printable replaces control characters, so that a cell stays on its line and cannot send escape
// sequences to the terminal.
func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		if runes.IsControl(r) {
			return ' '
		}
		return r
	}, cell)
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

// took returns the duration of a run as one cell.
func took(r storage.Record) string {
	length, ended := r.Took()
	if !ended {
		return "-"
	}
	return length.Round(time.Millisecond).String()
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
