package holdfasttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
)

// outcome is how a run or an attempt ended, or its state so far.
type outcome struct {
	state  jobs.State
	reason jobs.Reason
	detail string
	err    string
}

// is reports whether it is the state, with one of the reasons if there are any.
func (o outcome) is(want jobs.State, reasons []jobs.Reason) bool {
	return o.state == want && (len(reasons) == 0 || slices.Contains(reasons, o.reason))
}

// String returns "skipped (lock_held): public/orders was held by …".
func (o outcome) String() string {
	words := string(o.state)
	if o.reason != "" {
		words += fmt.Sprintf(" (%s)", o.reason)
	}
	for _, more := range []string{o.detail, o.err} {
		if more != "" {
			words += ": " + more
		}
	}
	return words
}

// wanted returns "skipped (lock_held or overlap)".
func wanted(state jobs.State, reasons []jobs.Reason) string {
	if len(reasons) == 0 {
		return string(state)
	}
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = string(r)
	}
	return fmt.Sprintf("%s (%s)", state, strings.Join(names, " or "))
}

// quoted returns the output of a run on lines of its own, or "".
func quoted(output string) string {
	if output == "" {
		return ""
	}
	return "\noutput:\n\t" + strings.ReplaceAll(strings.TrimRight(output, "\n"), "\n", "\n\t")
}
