package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// hostile is a text that clears a terminal, draws over lines and changes the direction of text.
const hostile = "a\x1b[2J\u009b2J\a\r\x7f\u202eb\n\tc: 'd' \"e\\\n"

// expectHarmless checks that a text has no character that controls a terminal, except line breaks.
func expectHarmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && runes.IsControl(r) {
			t.Errorf("got %q, want no %U", text, r)
			return
		}
	}
}

// TestOutputsControlNoTerminal reads JSON and YAML again, which must have the value of the store.
func TestOutputsControlNoTerminal(t *testing.T) {
	type record struct {
		Output string            `json:"output" yaml:"output"`
		Lines  []string          `json:"lines" yaml:"lines"`
		Params json.RawMessage   `json:"params" yaml:"-"`
		Named  map[string]string `json:"named" yaml:"named"`
	}
	r := record{hostile, []string{hostile, "x\ny\n", "\u009b", ""},
		json.RawMessage("{\"a\": \"\u009b\u202e\"}"), map[string]string{"k\x1b\u009b\u202e": "v"}}
	for format, read := range map[outputFormat]func([]byte, any) error{
		jsonFormat: json.Unmarshal,
		yamlFormat: func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	} {
		var out bytes.Buffer
		if err := format.encode(&out, r); err != nil {
			t.Fatal(err)
		}
		expectHarmless(t, out.String())
		var got record
		if err := read(out.Bytes(), &got); err != nil || got.Output != r.Output ||
			strings.Join(got.Lines, "|") != strings.Join(r.Lines, "|") ||
			got.Named["k\x1b\u009b\u202e"] != "v" {
			t.Errorf("%s: read %+v (%v) from %s, want %+v", format, got, err, &out, r)
		}
	}
	var out bytes.Buffer
	if err := writeAudit(&out)([]storage.Audited{{Reason: hostile}}); err != nil {
		t.Fatal(err)
	}
	expectHarmless(t, out.String())
	var entry storage.Audited
	if err := json.Unmarshal(out.Bytes(), &entry); err != nil || entry.Reason != hostile {
		t.Errorf("read %q (%v), want the reason", entry.Reason, err)
	}
}

// TestErrorsControlNoTerminal reports errors as text, as JSON and as YAML.
func TestErrorsControlNoTerminal(t *testing.T) {
	for _, format := range outputFormats() {
		c := &commandLine{format: outputFormat(format)}
		cmd := c.rootCommand()
		if err := cmd.PersistentFlags().Set("output", format); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code := Report(c.mistake(cmd, nil, errors.New(hostile)), &out)
		if code != 1 || !strings.Contains(out.String(), "2J") {
			t.Errorf("%s: got exit code %d and %q, want 1 and the error", format, code, &out)
		}
		expectHarmless(t, strings.ReplaceAll(out.String(), "\t", ""))
	}
	var out bytes.Buffer
	if code := Report(&ExitError{Code: 3}, &out); code != 3 || out.Len() > 0 {
		t.Errorf("got exit code %d and %q, want 3 and nothing", code, &out)
	}
}

// TestServersControlNoTerminal has a server, or a proxy before it, that sends escape sequences.
func TestServersControlNoTerminal(t *testing.T) {
	for args, answer := range map[string]string{
		"jobs": "409 \x1b[2J\u009b2J\r\nContent-Type: application/json\r\n\r\n{",
		"status": "200 OK\r\nContent-Type: application/json\r\n\r\n" +
			`{"status": {"severity": "\u001b[2J", "headline": "\u009b2J"}}`,
	} {
		got := perform(t, nil, args, "--server", serverOf(t, answer))
		var report bytes.Buffer
		Report(errors.New(got.err), &report)
		if !strings.Contains(got.out+report.String(), "2J") {
			t.Errorf("%s: got %+v, want what the server sent", args, got)
		}
		expectHarmless(t, got.out+report.String())
	}
}

// serverOf returns the address of a server that answers with a status line, headers and a body.
func serverOf(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 "+answer)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
