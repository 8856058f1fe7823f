package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// maxProblems bounds the listed mistakes, because params of 64 KB can have thousands, and the time
// for the hint in each of them grows with the number of names.
const maxProblems = 20

// problemList collects the mistakes in a job's params.
type problemList []jobs.ParamProblem

func (l *problemList) add(key, format string, args ...any) {
	switch {
	case len(*l) < maxProblems:
		*l = append(*l, jobs.ParamProblem{Key: key, Message: fmt.Sprintf(format, args...)})
	case len(*l) == maxProblems:
		*l = append(*l, jobs.ParamProblem{Message: fmt.Sprintf(
			"found more than %d mistakes, the others are not listed", maxProblems)})
	}
}

// unknownName is the mistake that a name is none of the candidates. Its hint takes long, so it is
// computed only for a mistake that is listed.
type unknownName struct {
	what, name string
	candidates []string
}

// Error names the nearest candidate, or all of them.
func (u *unknownName) Error() string {
	return fmt.Sprintf("found the unknown %s%s", u.what, suggest.Hint(u.name, u.candidates))
}

func (l problemList) err() error {
	if len(l) == 0 {
		return nil
	}
	return &jobs.ParamsError{Problems: l}
}

// withCause adds the cause of ctx to an error, if ctx has ended.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

const (
	quotedBytes = 512 // of an output that an error quotes
	// retainedBytes of an output are retained for the quote, so that secrets in it are whole when
	// they are masked.
	retainedBytes = 16 << 10
)

// newTail returns a Tail for quote, which masks the secrets of the run.
func newTail(run *jobs.Run) *output.Tail {
	return run.Internal(attempt.NewKey()).Output.Part(retainedBytes)
}

// quote returns the end of an output for the text of an error, or "".
func quote(tail *output.Tail) string {
	text := strings.TrimSpace(ansi.Plain(tail.Text(quotedBytes)))
	if text == "" {
		return ""
	}
	return ": " + text
}
