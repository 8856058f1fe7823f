package soak_test

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

func TestLengths(t *testing.T) {
	for _, tt := range []struct {
		value   string
		running bool
		pick    int
	}{{"", false, 2}, {"1", true, 50}} {
		t.Run("HOLDFAST_SOAK="+tt.value, func(t *testing.T) {
			t.Setenv("HOLDFAST_SOAK", tt.value)
			if got := soak.Running(); got != tt.running {
				t.Errorf("Running returns %v", got)
			}
			if got := soak.Pick(2, 50); got != tt.pick {
				t.Errorf("Pick returns %d, want %d", got, tt.pick)
			}
			ran := false
			t.Run("only", func(t *testing.T) {
				soak.Only(t)
				ran = true
			})
			if ran != tt.running {
				t.Errorf("the test ran: %v", ran)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	if testing.Short() {
		t.Skip("rapid makes a fifth of the checks with -short")
	}
	before := flag.Lookup("rapid.checks").Value.String()
	t.Cleanup(func() {
		if err := flag.Set("rapid.checks", before); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("HOLDFAST_SOAK", "")
	if err := soak.Checks(7); err != nil {
		t.Fatal(err)
	}
	checked := 0
	rapid.Check(t, func(*rapid.T) { checked++ })
	if checked != 7 {
		t.Errorf("checked %d times, want 7", checked)
	}
}
