package cli

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// echoes reports whether the terminal shows what is typed.
func (s *screen) echoes(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(s.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// TestInterruptedPasswordRestoresTheEcho interrupts hash-password while it waits for the password.
func TestInterruptedPasswordRestoresTheEcho(t *testing.T) {
	s := openScreen(t, 80)
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := typedPassword(ctx, int(s.terminal.Fd()), s.terminal)
		done <- err
	}()
	s.await(t, "Password: ")
	for s.echoes(t) {
		runtime.Gosched()
	}
	stop(interrupted{os.Interrupt})
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the interruption", err)
	}
	if !s.echoes(t) {
		t.Error("the terminal still does not show what is typed")
	}
}
