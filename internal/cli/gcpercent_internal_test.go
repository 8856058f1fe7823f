package cli

import (
	"runtime/debug"
	"testing"
)

func TestGCPercentUnlessTheEnvironmentHasOne(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collectLessOften(func(string) string { return "100" })
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC=100 became %d", got)
	}
	collectLessOften(func(string) string { return "" })
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("without GOGC the percentage is %d, want %d", got, gcPercent)
	}
}
