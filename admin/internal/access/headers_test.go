package access

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// headersOf returns the headers of a response to a request, with TLS if state is not nil.
func headersOf(state *tls.ConnectionState) http.Header {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.TLS = state
	WithHeaders(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), true).
		ServeHTTP(recorder, request)
	return recorder.Header()
}

// TestTransportSecurity checks that only a server with its own TLS sends Strict-Transport-Security.
func TestTransportSecurity(t *testing.T) {
	const header = "Strict-Transport-Security"
	if got := headersOf(nil).Get(header); got != "" {
		t.Errorf("without TLS: %q", got)
	}
	if got := headersOf(&tls.ConnectionState{}).Get(header); got != transportSecurity {
		t.Errorf("with TLS: %q, want %q", got, transportSecurity)
	}
}

func TestHeaders(t *testing.T) {
	want := map[string]string{
		"Content-Security-Policy":      contentPolicy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           permissionsPolicy,
	}
	want["Cache-Control"] = "no-store"
	headers := headersOf(nil)
	for header, value := range want {
		if got := headers.Get(header); got != value {
			t.Errorf("%s is %q, want %q", header, got, value)
		}
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'",
		"form-action 'self'", "base-uri 'none'"} {
		if !strings.Contains(contentPolicy, part) {
			t.Errorf("policy lacks %s", part)
		}
	}
	if strings.Contains(contentPolicy, "unsafe") ||
		!strings.Contains(contentPolicy, "; script-src 'self'; style-src 'self'; ") {
		t.Errorf("got the policy %q, want only scripts and styles of this server", contentPolicy)
	}
}
