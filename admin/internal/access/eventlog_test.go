package access

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// taken compares the audit entries that were written since the last call.
func taken(t *testing.T, what string, e *accesstest.Events, want ...string) {
	t.Helper()
	if got := e.Take(); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestSignInsAreAudited(t *testing.T) {
	events := new(accesstest.Events)
	guard := newSharedGuard(t, testPolicy(t), Shared{Events: events, Replica: "a"}, zerolog.Nop())
	handler := guard.WithSource(handlerOf(guard))
	cookie := accesstest.CookieOf(t, handler, "anna", "correct horse")
	taken(t, "sign-in", events, `sign_in page by anna (page, password) null`)
	by := events.Senders()[0]
	if by.Replica != "a" || by.Client != "192.0.2.1" || by.RequestID == "" {
		t.Errorf("sign-in by %+v, want the replica, the client and the request", by)
	}
	accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithCookie(cookie))
	taken(t, "a page", events)
	accesstest.Ask(handler, http.MethodPost, "/logout", accesstest.WithCookie(cookie))
	taken(t, "sign-out", events, `sign_out page by anna (page, password) null`)
	accesstest.SignIn(handler, "anna", "wrong")
	taken(t, "wrong password", events,
		`sign_in_refused page by anna (page, password) {"error":"wrong user or password"}`)
	accesstest.SignIn(handler, "my-secret-typed-here", "")
	taken(t, "unknown name", events,
		`sign_in_refused page by (unknown) (page, password) {"error":"wrong user or password"}`)
	accesstest.Ask(handler, http.MethodGet, "/api/v1/runs",
		accesstest.WithHeader("Authorization", "Bearer wrong"))
	lines := events.Take()
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "sign_in_refused page by (unknown) (api, none) ") ||
		strings.Contains(lines[0], "wrong\"") {
		t.Errorf("wrong token: got %q", lines)
	}
}

func TestSignInsByOIDCAreAudited(t *testing.T) {
	p := newTestProvider(t)
	events := new(accesstest.Events)
	handler := handlerOf(newSharedGuard(t, p.policy(t), Shared{Events: events}, zerolog.Nop()))
	b := p.begin(t, handler, "/")
	b.finish(b.claims())
	taken(t, "sign-in", events, `sign_in page by olga@example.com (page, oidc) null`)
	b = p.begin(t, handler, "/")
	claims := b.claims()
	claims["nonce"] = "x"
	b.finish(claims)
	if lines := events.Take(); len(lines) != 1 ||
		!strings.HasPrefix(lines[0], "sign_in_refused page by (unknown) (page, oidc) ") {
		t.Errorf("wrong nonce: got %q", lines)
	}
}

// Audited refusals have a limit of their own. An entry reports how many were omitted.
func TestAuditedEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(accesstest.Events)
		handler := handlerOf(newSharedGuard(t, testPolicy(t), Shared{Events: events},
			zerolog.Nop()))
		wrong := func() {
			accesstest.Ask(handler, http.MethodGet, "/api/v1/runs",
				accesstest.WithHeader("Authorization", "Bearer wrong"))
		}
		for range eventsPerMinute + 17 {
			wrong()
		}
		if n := len(events.Take()); n != eventsPerMinute {
			t.Errorf("got %d lines for %d refusals, want %d", n, eventsPerMinute+17,
				eventsPerMinute)
		}
		accesstest.CookieOf(t, handler, "anna", "correct horse")
		taken(t, "a sign-in meanwhile", events, `sign_in page by anna (page, password) null`)
		time.Sleep(time.Minute)
		wrong()
		if lines := events.Take(); len(lines) != 1 || !strings.Contains(lines[0], `"left_out":17`) {
			t.Errorf("the next minute: got %q, want 17 left out", lines)
		}
		wrong()
		if lines := events.Take(); len(lines) != 1 || strings.Contains(lines[0], "left_out") {
			t.Errorf("the line after it: got %q, want none left out", lines)
		}
	})
}

// Users can sign in while the store is unavailable.
func TestSignInWhileTheAuditLogIsDown(t *testing.T) {
	events := new(accesstest.Events)
	events.SetDown(true)
	var logged bytes.Buffer
	handler := handlerOf(newSharedGuard(t, testPolicy(t), Shared{Events: events},
		zerolog.New(&logged)))
	for range 3 {
		accesstest.CookieOf(t, handler, "anna", "correct horse")
	}
	if n := strings.Count(logged.String(), "store is down"); n != 1 {
		t.Errorf("got %d log lines about the store, want 1:\n%s", n, logged.String())
	}
	events.SetDown(false)
	accesstest.CookieOf(t, handler, "anna", "correct horse")
	taken(t, "when it answers", events, `sign_in page by anna (page, password) null`)
}
