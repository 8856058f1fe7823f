package cli

import (
	"runtime/debug"
	"testing"
)

// TestGCPercent checks that a replica collects garbage less often, unless the environment decides.
func TestGCPercent(t *testing.T) {
	const before = 123
	for gogc, want := range map[string]int{"": gcPercent, "off": before, "80": before} {
		t.Run(gogc, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(before))
			collectLessOften(func(name string) string {
				if name != "GOGC" {
					t.Errorf("read %s, want GOGC", name)
				}
				return gogc
			})
			if got := debug.SetGCPercent(before); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}
