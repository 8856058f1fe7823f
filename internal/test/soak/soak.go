// Package soak tells tests whether this run is a long one.
//
// The tests of this project run at two lengths. `make test`, `make browser` and `make race` run the
// tests that every change must pass, within minutes. `make soak` runs the same tests for longer,
// and the tests that need a long run: a simulated year, every state of every page, long histories.
// It sets HOLDFAST_SOAK=1, which this package reads.
//
// The package uses an environment variable and no build tag, so that every test is compiled and
// vetted at both lengths.
package soak

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// variable is set to anything but the empty string in a soak.
const variable = "HOLDFAST_SOAK"

// Running reports whether this is a soak.
func Running() bool { return os.Getenv(variable) != "" }

// Only skips a test that belongs to the soak alone, unless this is one. What it
// proves must be proven in small by a test that `make test` runs.
func Only(t testing.TB) {
	t.Helper()
	if !Running() {
		t.Skip("runs in `make soak` only")
	}
}

// Pick returns how much a test does: short in `make test`, long in a soak.
func Pick[T any](short, long T) T {
	if Running() {
		return long
	}
	return short
}

// Checks limits the checks of each property of rapid tests in this binary to n, unless this is a
// soak or the command line sets another number. It is for packages whose properties call a server.
// TestMain calls it at its beginning.
func Checks(n int) error {
	if Running() {
		return nil
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		return fmt.Errorf("limit the checks of rapid: %w", err)
	}
	return nil
}
