package access

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func TestProxyProvesItselfByASecret(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	p := testPolicy(t)
	p.Proxy.SecretHeader, p.Proxy.Secret = "X-Proxy-Secret", secret
	var logged bytes.Buffer
	handler := handlerOf(newGuardWith(t, p, nil, zerolog.New(&logged)))
	inside, outside := "10.1.2.3:9", "192.0.2.1:9"
	for _, c := range []struct {
		name, from string
		secrets    []string
		trusted    bool
	}{
		{"secret", inside, []string{secret}, true},
		{"no secret", inside, nil, false},
		{"wrong secret", inside, []string{secret[1:] + "x"}, false},
		{"part of the secret", inside, []string{secret[1:]}, false},
		{"empty secret", inside, []string{""}, false},
		{"two secrets", inside, []string{secret, secret}, false},
		{"secret from another network", outside, []string{secret}, false},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Host, request.RemoteAddr = accesstest.Host, c.from
		request.Header["X-Proxy-Secret"] = c.secrets
		request.Header.Set("X-Forwarded-For", "203.0.113.9")
		request.Header.Set("X-Forwarded-Proto", "https")
		client := clientOf(request, p.Proxy).String()
		if got := client == "203.0.113.9"; got != c.trusted {
			t.Errorf("%s: the client is %s", c.name, client)
		}
		if got := overTLS(request, p.Proxy); got != c.trusted {
			t.Errorf("%s: TLS %v", c.name, got)
		}
		request.Header.Set("X-Forwarded-User", "olga@example.com")
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, request)
		if got := reply.Code == http.StatusOK; got != c.trusted ||
			!got && reply.Code != http.StatusForbidden ||
			strings.Contains(reply.Body.String(), secret[1:]) {
			t.Errorf("%s: got %d %s, want an answer without the secret", c.name, reply.Code,
				reply.Body)
		}
	}
	if !strings.Contains(logged.String(), "admin request was refused") ||
		strings.Contains(logged.String(), secret[1:]) {
		t.Errorf("log: %s", &logged)
	}
}

func TestProxySecretIsChecked(t *testing.T) {
	for want, proxy := range map[string]Proxy{
		"the proxy's secret and its header are needed together": {SecretHeader: "X-Secret"},
		"the proxy's secret has 5 bytes, expected at least 32": {SecretHeader: "X-Secret",
			Secret: "short"},
		"the proxy's secret has 1 byte, expected at least 32": {SecretHeader: "X-Secret",
			Secret: "s"},
	} {
		p := testPolicy(t)
		proxy.Networks = p.Proxy.Networks
		p.Proxy = &proxy
		var got []string
		p.Check(func(format string, args ...any) {
			got = append(got, fmt.Sprintf(format, args...))
		})
		if len(got) != 1 || got[0] != want {
			t.Errorf("found %q, expected %q", got, want)
		}
	}
}
