package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// followEvery is the interval in which "logs -f" reads the output of a run. Its replica stores new
// output every two seconds.
const followEvery = time.Second

// logsCommand returns the command "logs".
func (c *commandLine) logsCommand() *cobra.Command {
	var follow bool
	cmd := remotely(&cobra.Command{
		Use: "logs RUN", Short: "Print the output of a run", Args: cobra.ExactArgs(1),
		Long: `Print the output of a run: what its handler logged and wrote, of its last attempt.
The output of earlier attempts is in "scheduler runs RUN --attempt N".

With --follow, print new output until the run has ended. It appears after about two
seconds. The database keeps the end of the output: the last 64 KiB, the last 16 KiB
while the run is running, and the last 4 KiB of a run that succeeded.`,
		Example: `  scheduler logs 01a1fecc-ef57-7d76-aac5-e8f353379cd3
  scheduler logs -f 01a1fecc-ef57-7d76-aac5-e8f353379cd3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return fmt.Errorf("run: expected an id from \"scheduler runs\", found %q", args[0])
			}
			if c.format.structured() {
				return fmt.Errorf("-o %s: expected table, because the output of a run is text; "+
					"use \"scheduler runs RUN -o %s\"", c.format, c.format)
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				f := follower{in: in, out: c.out}
				err := f.follow(cmd.Context(), id, follow)
				if errors.Is(err, storage.ErrNotFound) {
					return fmt.Errorf("run %s: not found in the history", id)
				}
				return err
			})
		},
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new output until the run has ended")
	return c.completes(cmd, runsIn())
}

// follower prints the output of a run as it grows.
type follower struct {
	in      history
	out     io.Writer
	attempt int    // whose output is printed
	printed string // the output that was read last
}

// follow prints the output so far, and with more, new output until the run has ended.
func (f *follower) follow(ctx context.Context, id uuid.UUID, more bool) error {
	for {
		if more {
			if err := f.in.Watch(ctx, id); err != nil {
				return err
			}
		}
		run, err := f.in.Run(ctx, id)
		if err != nil {
			return err
		}
		if err := f.print(ctx, run.Record); err != nil || !more || run.State.Final() {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the run goes on
		case <-time.After(followEvery):
		}
	}
}

// print prints what is new in the output of a run.
func (f *follower) print(ctx context.Context, run storage.Record) error {
	if f.attempt != 0 && f.attempt != run.Attempt {
		ended, err := f.in.Attempt(ctx, run.ID, f.attempt)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err := f.printNew(ended.Output); err != nil {
			return err
		}
		f.printed = ""
		if _, err := fmt.Fprintf(f.out, "[attempt %d]\n", run.Attempt); err != nil {
			return err
		}
	}
	f.attempt = run.Attempt
	return f.printNew(run.Output)
}

func (f *follower) printNew(text string) error {
	if text == "" {
		return nil
	}
	fresh := newPart(f.printed, text)
	f.printed = text
	_, err := io.WriteString(f.out, ansi.Plain(fresh))
	return err
}

// newPart returns what a text has after the end of an earlier one. Both are the ends of one growing
// output, of different lengths.
func newPart(before, text string) string {
	before, text = strings.TrimPrefix(before, output.CutMark), strings.TrimPrefix(text,
		output.CutMark)
	if i := strings.LastIndex(before, text); i >= 0 && i+len(text) == len(before) {
		return ""
	}
	for n := min(len(before), len(text)); n > 0; n-- {
		if strings.HasSuffix(before, text[:n]) {
			return text[n:]
		}
	}
	if before == "" {
		return text
	}
	return output.CutMark + text
}
