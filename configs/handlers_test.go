package configs

import (
	"fmt"
	"strings"
	"testing"
)

// counted are handlers that count the calls of Names.
type counted struct {
	builtins
	calls *int
}

func (c counted) Names() []string {
	*c.calls++
	return c.builtins.Names()
}

// TestNamesOfHandlersAreReadOnce checks many jobs. A registry sorts the names for each call.
func TestNamesOfHandlersAreReadOnce(t *testing.T) {
	var text strings.Builder
	text.WriteString("jobs:\n")
	for i := range 20 {
		fmt.Fprintf(&text, "- {name: job-%d, handler: sql, schedule: '@daily'}\n", i)
	}
	calls := 0
	if _, err := parse(text.String(), WithHandlers(counted{calls: &calls})); err != nil {
		t.Fatal(err)
	}
	if calls != 1 {
		t.Errorf("Names was called %d times, expected once", calls)
	}
}
