package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hideMemory prevents other processes of the same user, such as those of command jobs, from reading
// the environment and the memory of this process in /proc, and from tracing it. Root still can.
// The kernel then writes no core dumps, and the process itself cannot list /proc/self/fd. Programs
// that it starts are not affected.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the memory of the process: %w", err)
	}
	return nil
}
