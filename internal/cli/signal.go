package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interrupted is the cause of a context that a signal cancelled.
type interrupted struct{ by os.Signal }

// Error returns "interrupted" or "terminated", for messages of commands that wait.
func (e interrupted) Error() string {
	if e.by == os.Interrupt {
		return "interrupted"
	}
	return e.by.String()
}

// Is makes an interrupted equal to context.Canceled.
func (interrupted) Is(target error) bool { return target == context.Canceled }

// untilInterrupted returns what read returns, or the cause of ctx if that ends first. Reading from
// standard input cannot be cancelled: read then continues until the process ends.
func untilInterrupted[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// oneSignal is how long further signals count as the first one. Some programs send one signal to
// the process and to its group, as timeout of the GNU coreutils does.
const oneSignal = 500 * time.Millisecond

// UntilSignal returns a context that the first SIGINT or SIGTERM cancels. A second signal, half a
// second later or more, has its default effect and ends the process.
//
// One channel receives both signals. If the function restored the default only after the first
// signal, a second one that arrives at once could be lost.
func UntilSignal() context.Context {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancelCause(context.Background())
	go func() {
		stop(interrupted{<-signals})
		second := anotherSignal(signals)
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Signal(second) != nil {
			os.Exit(1) // on systems where a process cannot signal itself
		}
	}()
	return ctx
}

// anotherSignal returns the next signal that does not count as the first one, which has just
// arrived.
func anotherSignal(signals <-chan os.Signal) os.Signal {
	for first := time.Now(); ; {
		if next := <-signals; time.Since(first) >= oneSignal {
			return next
		}
	}
}
