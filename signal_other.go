//go:build !unix

package holdfast

import "os"

// notifyReload does nothing: there is no SIGHUP.
func notifyReload(chan<- os.Signal) {}
