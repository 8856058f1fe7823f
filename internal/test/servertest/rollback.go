package servertest

import (
	"errors"
	"testing"
	"time"
)

// CheckRollback fails the test unless execute returns soon with the error of its function. The
// server behind the proxy does not answer after this function, so it does not answer the rollback.
func CheckRollback(t *testing.T, proxy *Proxy, execute func(fn func() error) error) {
	t.Helper()
	failed, done := errors.New("failed"), make(chan error, 1)
	go func() {
		done <- execute(func() error {
			proxy.MuteAll()
			return failed
		})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, failed) {
			t.Errorf("got %v, want %v", err, failed)
		}
	case <-time.After(30 * time.Second):
		proxy.CutAll()
		t.Fatalf("it still waits for the rollback; then it returned %v", <-done)
	}
}
