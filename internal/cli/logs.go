package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/remote"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// followEvery is the interval in which "logs -f" reads the output of a run. Its replica stores new
// output every two seconds.
const followEvery = time.Second

// followPolicy gives the delays of "logs -f" while the cluster does not answer.
var followPolicy = retry.Policy{Attempts: math.MaxInt, Delay: followEvery,
	MaxDelay: 15 * time.Second, Backoff: retry.Exponential}

// logsCommand returns the command "logs".
func (c *commandLine) logsCommand() *cobra.Command {
	var follow bool
	cmd := remotely(&cobra.Command{
		Use: "logs RUN", Short: "Print the output of a run", Args: cobra.ExactArgs(1),
		Long: `Print the output of the last attempt of a run: what its handler logged and wrote.
"scheduler runs RUN --attempt N" prints the output of an earlier attempt.

With --follow, print new output until the run has ended. It appears after about two
seconds. If the server or the database does not answer for a time, the command says so
on standard error, and goes on when it answers again. If the run ends and has not
succeeded, a note on standard error names its state and the reason. The exit code is 0
for every outcome of the run.

A running run stores its output only while a command or a page reads it. Without
--follow, the first output of a running run can be missing. A note on standard error
then names --follow. If you repeat the command after about two seconds, it prints the
output. If the replica of a run is lost, the output that it had not stored is lost too.
If a run has ended without stored output, there is a note on standard error.

The database keeps the end of the output: the last 64 KiB, the last 16 KiB while the
run is running, and the last 4 KiB of a run that succeeded.`,
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
				// a store is open by now
				f := follower{in: in, out: c.out, errOut: c.errOut,
					answered: c.server == ""}
				show := f.print
				if follow {
					show = f.follow
				}
				err := show(cmd.Context(), id)
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
	in       history
	out      io.Writer
	errOut   io.Writer // for notes
	answered bool      // the cluster has answered
	attempt  int       // whose output is printed
	printed  string    // the output that was read last
}

// follow prints the output until the run has ended. While the cluster does not answer, it waits.
func (f *follower) follow(ctx context.Context, id uuid.UUID) error {
	for failures := 0; ; {
		ended, err := f.next(ctx, id)
		delay := followEvery
		switch {
		case ctx.Err() != nil:
			return nil // the run goes on
		case err == nil && ended:
			return nil
		case err == nil:
			f.answered, failures = true, 0
		case !f.passes(err):
			return err
		default:
			if failures++; failures == 1 {
				fmt.Fprintln(f.errOut, "scheduler: waiting for an answer:", ansi.Plain(err.Error()))
			}
			delay, _ = followPolicy.After(failures, 0)
		}
		sleep.For(ctx, delay)
	}
}

// passes reports whether the cluster may answer later. A server that was never reached is taken for
// a wrong address.
func (f *follower) passes(err error) bool {
	var refusal *remote.Refusal
	return errors.Is(err, storage.ErrUnavailable) && (f.answered || errors.As(err, &refusal))
}

// next has the run save its output, prints what is new, and reports whether the run has ended.
func (f *follower) next(ctx context.Context, id uuid.UUID) (ended bool, err error) {
	if err := f.in.Watch(ctx, id); err != nil {
		return false, err
	}
	run, err := f.in.Run(ctx, id)
	if err != nil {
		return false, err
	}
	if err := f.printRun(ctx, run.Record); err != nil || !run.State.Final() {
		return false, err
	}
	return true, f.printEnd(run.Record)
}

// printEnd writes notes about a followed run that has not succeeded or has no stored output.
func (f *follower) printEnd(run storage.Record) error {
	if run.State != jobs.Succeeded {
		note := endWords(run.State)
		if cause := why(run); cause != "" {
			note += ": " + printable(cause)
		}
		if _, err := fmt.Fprintf(f.errOut, "scheduler: run %s %s\n", run.ID, note); err != nil {
			return err
		}
	}
	return f.printWithoutOutput(run)
}

// endWords returns a final state as the verb of a sentence.
func endWords(state jobs.State) string {
	switch state {
	case jobs.Succeeded, jobs.Failed:
		return string(state)
	case jobs.TimedOut:
		return "exceeded its timeout"
	}
	return "was " + string(state)
}

// printWithoutOutput writes a note about a run that has ended if its last attempt has no stored
// output.
func (f *follower) printWithoutOutput(run storage.Record) error {
	if run.Output != "" {
		return nil
	}
	what := "run " + run.ID.String()
	if run.Attempt > 1 {
		what = fmt.Sprintf("attempt %d of %s", run.Attempt, what)
	}
	note := ""
	if run.State == jobs.Lost {
		note = "; a running run stores its output only while a command or a page reads it"
	}
	_, err := fmt.Fprintf(f.errOut, "scheduler: %s has no stored output%s\n", what, note)
	return err
}

// print prints the output that the store has.
func (f *follower) print(ctx context.Context, id uuid.UUID) error {
	run, err := f.in.Run(ctx, id)
	if err != nil {
		return err
	}
	if err := f.printRun(ctx, run.Record); err != nil {
		return err
	}
	if run.State == jobs.Waiting && run.Output == "" {
		_, err := fmt.Fprintf(f.errOut, "scheduler: run %s is waiting and has no output; "+
			"\"scheduler runs %s\" says for what it waits\n", id, id)
		return err
	}
	if run.State.Final() {
		return f.printWithoutOutput(run.Record)
	}
	return watchOutput(ctx, f.in, run.Record, f.errOut)
}

// watchOutput makes a running run save its output for the next command, and writes a note about
// that to errOut. If the run cannot be watched, the note has the error.
func watchOutput(ctx context.Context, in history, run storage.Record, errOut io.Writer) error {
	if run.State != jobs.Running {
		return nil
	}
	note := "to print its output as it grows, use \"scheduler logs --follow\""
	if err := in.Watch(ctx, run.ID); err != nil {
		note = "its new output is not stored: " + ansi.Plain(err.Error())
	}
	_, err := fmt.Fprintf(errOut, "scheduler: run %s is running; %s\n", run.ID, note)
	return err
}

// printRun prints what is new in the output of a run, also of attempts that began and ended since
// it was read last. After an error it can be called again.
func (f *follower) printRun(ctx context.Context, run storage.Record) error {
	if f.attempt != 0 && f.attempt != run.Attempt {
		ended, err := f.in.Attempt(ctx, run.ID, f.attempt)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err := f.printNew(ended.Output); err != nil {
			return err
		}
		for n := max(f.attempt+1, run.Attempt-storage.MaxRunAttempts); n < run.Attempt; n++ {
			ended, err := f.in.Attempt(ctx, run.ID, n)
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := f.begin(n, ended.Output); err != nil {
				return err
			}
		}
		return f.begin(run.Attempt, run.Output)
	}
	f.attempt = run.Attempt
	return f.printNew(run.Output)
}

// begin prints the number of a further attempt, and its output.
func (f *follower) begin(attempt int, text string) error {
	f.attempt, f.printed = attempt, ""
	if _, err := fmt.Fprintf(f.out, "[attempt %d]\n", attempt); err != nil {
		return err
	}
	return f.printNew(text)
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
