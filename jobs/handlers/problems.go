package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
)

// problemList collects the mistakes in a job's params.
type problemList []jobs.ParamProblem

func (l *problemList) add(key, format string, args ...any) {
	*l = append(*l, jobs.ParamProblem{Key: key, Message: fmt.Sprintf(format, args...)})
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

// quotedBytes is how much of an output an error quotes.
const quotedBytes = 512

// quote returns the end of an output for the text of an error, or "".
func quote(tail *output.Tail) string {
	text := strings.TrimSpace(ansi.Plain(tail.Text(quotedBytes)))
	if text == "" {
		return ""
	}
	return ": " + text
}
