package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second does what a signal does by default. Both are taken from one channel:
// were the default only restored after the first, a second that comes at once
// could be lost.
func UntilSignal() context.Context {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-signals
		stop()
		second := <-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Signal(second) != nil {
			os.Exit(1) // where a process can't send itself signals
		}
	}()
	return ctx
}
