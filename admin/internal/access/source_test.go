package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestRequestIDs checks that only the trusted proxy can choose the id of a request.
func TestRequestIDs(t *testing.T) {
	const proxy, other = "10.1.2.3:9", "192.0.2.7:9"
	var got []Source
	handler := newGuard(t, testPolicy(t)).WithSource(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { got = append(got, SourceOf(r)) }))
	for _, test := range []struct {
		name, peer string
		ids        []string
		kept       bool
	}{
		{"of the proxy", proxy, []string{"req-1/a:b"}, true},
		{"as long as allowed", proxy, []string{strings.Repeat("x", 100)}, true},
		{"of another client", other, []string{"req-1"}, false},
		{"none", proxy, nil, false},
		{"empty", proxy, []string{""}, false},
		{"two", proxy, []string{"req-1", "req-2"}, false},
		{"too long", proxy, []string{strings.Repeat("x", 101)}, false},
		{"with a space", proxy, []string{"req 1"}, false},
		{"with a control character", proxy, []string{"req\x1b1"}, false},
		{"not ASCII", proxy, []string{"req-ä"}, false},
	} {
		got = nil
		reply := accesstest.Ask(handler, http.MethodGet, "/", accesstest.From(test.peer),
			accesstest.WithHeader("X-Forwarded-For", "2001:db8::7"),
			func(r *http.Request) { r.Header["X-Request-Id"] = test.ids })
		if len(got) != 1 {
			t.Fatalf("%s: %d requests, want 1", test.name, len(got))
		}
		id, client := got[0].RequestID, got[0].Client
		if kept := len(test.ids) > 0 && id == test.ids[0]; kept != test.kept || len(id) < 9 {
			t.Errorf("%s: got id %q, want that of the request: %t", test.name, id, test.kept)
		}
		if answered := reply.Header().Get("X-Request-Id"); answered != id {
			t.Errorf("%s: the answer has the id %q, the request %q", test.name, answered, id)
		}
		if want := map[string]string{proxy: "2001:db8::7",
			other: "192.0.2.7"}[test.peer]; client != want {
			t.Errorf("%s: got client %q, want %q", test.name, client, want)
		}
	}
}

// TestProxyDoesNotNameConfiguredActors checks that the proxy cannot name a user after a configured
// user or token. Otherwise the audit log could not distinguish them.
func TestProxyDoesNotNameConfiguredActors(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	for name, want := range map[string]int{"petra": 200, "anna": 403, "deploy": 403} {
		reply := accesstest.Ask(handler, http.MethodGet, "/", accesstest.From("10.1.2.3:9"),
			accesstest.WithHeader("X-Forwarded-User", name))
		if reply.Code != want {
			t.Errorf("%s: got %d %s, want %d", name, reply.Code, reply.Body, want)
		}
	}
}

func TestRequestIDsDiffer(t *testing.T) {
	handler := newGuard(t, testPolicy(t)).WithSource(http.NotFoundHandler())
	seen := make(map[string]bool)
	for range 3 {
		id := accesstest.Ask(handler, http.MethodGet, "/").Header().Get("X-Request-Id")
		if seen[id] || id == "" {
			t.Errorf("id %q, want a new one for each request", id)
		}
		seen[id] = true
	}
}
