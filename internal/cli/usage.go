package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// checkUsage makes the mistakes of a command, and of those below it, say what is expected.
func checkUsage(cmd *cobra.Command) {
	expected := cmd.Args
	if cmd.HasSubCommands() && cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		expected = cobra.NoArgs
	}
	if expected != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if expected(cmd, args) == nil {
				return nil
			}
			if cmd.HasSubCommands() {
				return unknownCommand(cmd, args[0])
			}
			return fmt.Errorf("found %s, usage: %s", argumentWords(args), cmd.UseLine())
		}
	}
	cmd.SetFlagErrorFunc(flagMistake)
	for _, below := range cmd.Commands() {
		checkUsage(below)
	}
}

func argumentWords(args []string) string {
	if len(args) == 0 {
		return "no arguments"
	}
	return plural.Of(len(args), "argument", "arguments")
}

// unknownCommand returns the error for a command that does not exist.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			names = append(names, below.Name())
		}
	}
	hint := didYouMean(name, names)
	if hint == "" {
		hint = fmt.Sprintf("; list commands with \"%s --help\"", cmd.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), hint)
}

// flagMistake returns the error for flags that could not be parsed. It says what is expected.
func flagMistake(cmd *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return withFlagHint(cmd, err)
	}
	flag := wrong.GetFlag()
	expected := map[string]string{
		"int": "a whole number", "int64": "a whole number", "bool": "true or false",
		"duration": "a duration such as 90s, 10m or 2h",
	}[flag.Value.Type()]
	if expected == "" { // the flag has a type of this package
		return fmt.Errorf("--%s %q: %w", flag.Name, wrong.GetValue(), errors.Unwrap(wrong))
	}
	return fmt.Errorf("--%s: expected %s, found %q", flag.Name, expected, wrong.GetValue())
}

// withFlagHint adds the most similar flag to the error for an unknown one, or says how to write an
// argument such as -2h.
func withFlagHint(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) &&
		strings.IndexAny(missing.GetSpecifiedShortnames(), "0123456789") == 0 {
		return fmt.Errorf("%w; write -- before arguments that begin with a hyphen, and flags "+
			"before that", err)
	}
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var names []string
	for _, line := range strings.Split(cmd.Flags().FlagUsages(), "\n") {
		if _, flag, found := strings.Cut(line, "--"); found {
			flag, _, _ = strings.Cut(flag, " ")
			names = append(names, "--"+flag)
		}
	}
	return errors.New(err.Error() + didYouMean("--"+name, names))
}

// didYouMean returns the most similar candidate as the end of an error, or "". A candidate that is
// equal is no advice.
func didYouMean(name string, candidates []string) string {
	if near := suggest.Of(name, candidates); near != "" && near != name {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
