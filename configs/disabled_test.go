package configs

import (
	"strings"
	"testing"
)

// A disabled handler is refused for jobs that operators add, and for jobs in Go, whether or not the
// handlers of the program are known.
func TestDisabledHandlers(t *testing.T) {
	config, err := Parse("c.yaml", []byte("handlers: {disabled: [command]}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]Option{nil, {withBuiltins()}} {
		const text = "{name: a, handler: command, params: {command: [date]}}"
		_, err := config.ParseJob("job", []byte(text), opts...)
		if err == nil || !strings.Contains(err.Error(), `found "command", which handlers.disabled`) {
			t.Errorf("command: got %v", err)
		}
	}
	if _, err := config.ParseJob("job", []byte("{name: a, handler: http, params: {url: "+
		"'https://example.com'}}"), withBuiltins()); err != nil {
		t.Errorf("http: got %v", err)
	}
}
