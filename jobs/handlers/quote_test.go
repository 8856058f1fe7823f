//go:build unix

package handlers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// TestErrorsQuoteNoPartOfASecret writes a secret of which only the end is among the bytes that the
// error quotes, or among the bytes that are retained for the quote.
func TestErrorsQuoteNoPartOfASecret(t *testing.T) {
	once, long := strings.Repeat("hunter2", 10), strings.Repeat("hunter2", 100)
	for _, c := range []struct{ secret, text, want string }{
		{once, once + strings.Repeat(".", 480), "[redacted]......"},
		{long, strings.Repeat(long, 50), "[earlier output was cut]"},
		{long, strings.Repeat(long, 50) + strings.Repeat(".", 1000), "......"},
	} {
		testQuoteOfSecret(t, c.secret, c.text, c.want)
	}
}

func testQuoteOfSecret(t *testing.T, secret, text, want string) {
	t.Helper()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, text) //nolint:errcheck // the test sees what is missing
	})
	for handler, params := range map[string]object{
		"http":    {"url": url},
		"command": {"command": []string{"sh", "-c", "printf %s \"$0\"; exit 3", text}},
	} {
		run := newRun("j")
		mask := redact.New([]string{secret})
		run.Internal(attempt.NewKey()).Output.Mask(mask.Text, mask.Longest())
		err := mustBind(t, handler, params)(t.Context(), run)
		wantError(t, err, want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want nothing of the secret", handler, err)
		}
	}
}
