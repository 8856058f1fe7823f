package app

import (
	"slices"
	"testing"
)

// A replica does not have the handlers that its configuration disables, so a run of an earlier
// configuration does not start there.
func TestRegistryWithoutDisabledHandlers(t *testing.T) {
	registry, err := newRegistry([]string{"http", "command"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := registry.Names(); !slices.Equal(got, []string{"sql"}) {
		t.Errorf("got %q, want sql alone", got)
	}
}
