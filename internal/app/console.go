package app

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// consoleParts are the short fields that follow the message on a console, before errors, which are
// long.
const consoleParts = "job state reason took"

// consoleFields are the fields that follow consoleParts, in the order of their importance. Others
// follow by name.
const consoleFields = "error detail again_in attempt late address url resource scheduled_at"

// newConsole returns a writer of lines for people: time, level, message, job, and the other fields
// in the order of their importance. Durations have units, and empty fields are left out.
func newConsole(out *os.File) zerolog.ConsoleWriter {
	parts := strings.Fields(consoleParts)
	return zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000",
		NoColor: !term.IsTerminal(int(out.Fd())),
		PartsOrder: append([]string{zerolog.TimestampFieldName, zerolog.LevelFieldName,
			zerolog.MessageFieldName}, parts...),
		FieldsExclude: parts, FieldsOrder: strings.Fields(consoleFields),
		FormatPartValueByName: consolePart, FormatPrepare: prepareConsole}
}

// consolePart returns the text of a part of a line that has no format of its own.
func consolePart(value any, name string) string {
	if value == nil {
		return ""
	}
	text := fmt.Sprint(value)
	if strings.ContainsAny(text, " \"=\\") {
		text = fmt.Sprintf("%q", text)
	}
	return name + "=" + text
}

// prepareConsole writes durations with units, and removes empty fields.
func prepareConsole(fields map[string]any) error {
	for name, value := range fields {
		switch value := value.(type) {
		case string:
			if value == "" && name != zerolog.MessageFieldName {
				delete(fields, name)
			}
		case json.Number:
			if !slices.Contains(strings.Fields(durations), name) {
				continue
			}
			if units, err := value.Float64(); err == nil {
				length := time.Duration(units * float64(zerolog.DurationFieldUnit))
				fields[name] = roundDuration(length).String()
			}
		}
	}
	return nil
}

// roundDuration rounds a duration to three digits, and one of more than 100 s to seconds.
func roundDuration(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d.Abs() >= 100*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Microsecond)
}
