//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload relays SIGHUP to the channel.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
