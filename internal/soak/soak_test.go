package soak_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/soak"
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
				t.Errorf("Pick returns %d, expected %d", got, tt.pick)
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
