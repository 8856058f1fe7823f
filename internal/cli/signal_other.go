//go:build !unix

package cli

import "os"

// notifyReload does nothing, because the system has no SIGHUP.
func notifyReload(chan<- os.Signal) {}
