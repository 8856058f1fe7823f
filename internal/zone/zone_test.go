package zone_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/zone"
)

func TestLoad(t *testing.T) {
	for name, valid := range map[string]bool{"": true, "UTC": true, "Europe/Berlin": true,
		"Local": false, "Nowhere/Nowhere": false} {
		if _, err := zone.Load(name); (err == nil) != valid {
			t.Errorf("%q: got %v, want it to be valid: %t", name, err, valid)
		}
	}
}
