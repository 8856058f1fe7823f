//go:build unix

package handlers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/attempt"
)

// TestErrorsQuoteNoPartOfASecret writes a secret of which only the end is among the bytes that the
// error quotes.
func TestErrorsQuoteNoPartOfASecret(t *testing.T) {
	secret := strings.Repeat("hunter2", 10)
	text := secret + strings.Repeat(".", 480)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, text) //nolint:errcheck // the test sees what is missing
	})
	for handler, params := range map[string]object{
		"http":    {"url": url},
		"command": {"command": []string{"sh", "-c", "printf %s \"$0\"; exit 3", text}},
	} {
		run := newRun("j")
		run.Internal(attempt.NewKey()).Output.Mask(func(text string) string {
			return strings.ReplaceAll(text, secret, "[redacted]")
		})
		err := mustBind(t, handler, params)(t.Context(), run)
		wantError(t, err, "[redacted]......")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want nothing of the secret", handler, err)
		}
	}
}
