package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestLogsPrintTheOutputOfARun(t *testing.T) {
	path, run := retriedStore(t)
	for _, more := range [][]string{nil, {"-f"}} {
		var out bytes.Buffer
		err := Execute(t.Context(), append([]string{"logs", run.String(), "-c", path}, more...),
			&out, &out, app.Options{})
		if err != nil || out.String() != "second\n" {
			t.Errorf("logs %v: got %q and %v, want the output", more, out.String(), err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "x"}, `run: expected an id from "scheduler runs", found "x"`},
		{[]string{"logs", uuid.NewString()}, "not found in the history"},
		{[]string{"logs", run.String(), "-o", "json"}, "-o json: expected table"},
	} {
		err := Execute(t.Context(), append(c.args, "-c", path), &bytes.Buffer{}, &bytes.Buffer{},
			app.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

func TestOnlyNewOutputIsPrinted(t *testing.T) {
	for _, c := range []struct{ before, text, want string }{
		{"", "a\n", "a\n"},
		{"a\n", "a\n", ""},
		{"a\n", "a\nb\n", "b\n"},
		{"a\nb\n", output.CutMark + "b\nc\n", "c\n"},
		{output.CutMark + "b\n", output.CutMark + "b\nc\n", "c\n"},
		{"a\nb\nc\n", output.CutMark + "c\n", ""},
		{"a\n", output.CutMark + "x\n", output.CutMark + "x\n"},
		{"", output.CutMark + "x\n", "x\n"},
	} {
		if got := newPart(c.before, c.text); got != c.want {
			t.Errorf("after %q, %q: got %q, want %q", c.before, c.text, got, c.want)
		}
	}
}

// TestLogsFollowARunThroughItsAttempts prints the rest of an attempt when the next one runs.
func TestLogsFollowARunThroughItsAttempts(t *testing.T) {
	path, id := retriedStore(t)
	c := &commandLine{configPath: path}
	var out bytes.Buffer
	err := c.withCluster(t.Context(), func(in cluster) error {
		f := follower{in: in, out: &out}
		for _, r := range []storage.Record{
			{State: jobs.Waiting}, {Attempt: 1}, {Attempt: 1, Output: "fir"},
			{Attempt: 2}, {Attempt: 2, Output: "\x1b[31msec\x1b[0m"},
		} {
			r.ID = id
			if err := f.print(t.Context(), r); err != nil {
				return err
			}
		}
		return nil
	})
	if want := "first\n[attempt 2]\nsec"; err != nil || out.String() != want {
		t.Errorf("got %q and %v, want %q", out.String(), err, want)
	}
}

func TestExitCodesOfAwaitedRuns(t *testing.T) {
	path, id := retriedStore(t)
	ctx := t.Context()
	c := &commandLine{configPath: path, out: &bytes.Buffer{}}
	err := c.withCluster(ctx, func(in cluster) error {
		for state, want := range map[jobs.State]int{jobs.Succeeded: 0, jobs.Failed: 2,
			jobs.TimedOut: 2, jobs.Lost: 2, jobs.Skipped: 3, jobs.Cancelled: 3, jobs.Missed: 3} {
			run, err := in.Run(ctx, id)
			if err != nil {
				return err
			}
			run.State = state
			got, ended := 0, c.printEnd(run.Record)
			if own, ok := ended.(*ExitError); ok && own.Error() == "" {
				got = own.Code
			} else if ended != nil {
				return ended
			}
			if got != want {
				t.Errorf("%s: got exit code %d, want %d", state, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
