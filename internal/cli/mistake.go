package cli

import (
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/configs"
)

// mistake is an error in JSON and YAML.
type mistake struct {
	Error    string            `json:"error"`
	Problems []configs.Problem `json:"problems,omitempty"` // of a configuration or an added job
}

// formatMistake returns an error in the format of the output, and false if that is text.
func (c *commandLine) formatMistake(args []string, err error) (string, bool) {
	format := c.format
	if !format.structured() {
		format = wrongArguments(args) // those before the flag -o may be wrong
	}
	if !format.structured() {
		return "", false
	}
	m := mistake{Error: err.Error()}
	var wrong *configs.Errors
	if errors.As(err, &wrong) {
		m.Problems = wrong.Problems
	}
	var text strings.Builder
	if format.encode(&text, m) != nil {
		return "", false
	}
	return strings.TrimRight(text.String(), "\n"), true
}

// wrongArguments returns the value of the flag -o in arguments that could not be parsed.
func wrongArguments(args []string) (f outputFormat) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		var value string
		long, isLong := strings.CutPrefix(arg, "--output=")
		short, isShort := strings.CutPrefix(arg, "-o")
		switch {
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			value = args[i+1]
		case isLong:
			value = long
		case isShort:
			value = strings.TrimPrefix(short, "=")
		}
		if f.Set(value) == nil {
			return f
		}
	}
	return ""
}
