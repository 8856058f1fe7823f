package access

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/permission"
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
	if len(lines) != 1 ||
		!strings.HasPrefix(lines[0], "sign_in_refused page by (unknown) (api, none) ") ||
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

// wrongToken sends a wrong token from an address.
func wrongToken(handler http.Handler, from string) {
	accesstest.Ask(handler, http.MethodGet, "/api/v1/runs",
		accesstest.WithHeader("Authorization", "Bearer wrong"), accesstest.From(from+":7"))
}

// Each address has a share of the refusals, and a line says how many were left out.
func TestAuditedEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(accesstest.Events)
		handler := handlerOf(newSharedGuard(t, testPolicy(t), Shared{Events: events},
			zerolog.Nop()))
		for range eventsPerActor + 17 {
			wrongToken(handler, "198.51.100.1")
		}
		if n := len(events.Take()); n != eventsPerActor {
			t.Errorf("got %d lines for %d refusals, want %d", n, eventsPerActor+17, eventsPerActor)
		}
		wrongToken(handler, "198.51.100.2")
		if n := len(events.Take()); n != 1 {
			t.Errorf("got %d lines for the first refusal of another address, want 1", n)
		}
		accesstest.CookieOf(t, handler, "anna", "correct horse")
		taken(t, "a sign-in meanwhile", events, `sign_in page by anna (page, password) null`)
		time.Sleep(time.Minute)
		wrongToken(handler, "198.51.100.2")
		want := `"left_out":17,"left_out_actors":[{"actor":"198.51.100.1","entries":17}]`
		if lines := events.Take(); len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("the next minute: got %q, want %s", lines, want)
		}
		wrongToken(handler, "198.51.100.2")
		if lines := events.Take(); len(lines) != 1 || strings.Contains(lines[0], "left_out") {
			t.Errorf("the line after it: got %q, want none left out", lines)
		}
	})
}

// A flood of wrong tokens from many addresses hides neither a denied request nor a sign-in, and
// many busy users do not hide the first line of another one.
func TestFloodsDoNotHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(accesstest.Events)
		guard := newSharedGuard(t, testPolicy(t), Shared{Events: events}, zerolog.Nop())
		handler := handlerOf(guard)
		for i := range 2 * maxCountedActors {
			wrongToken(handler, fmt.Sprintf("198.51.%d.%d", i/250, i%250))
		}
		if n := len(events.Take()); n != firstEventsPerMinute {
			t.Errorf("got %d lines of the flood, want %d", n, firstEventsPerMinute)
		}
		if n := len(guard.events.anonymous.actors); n != maxCountedActors+1 {
			t.Errorf("%d addresses are counted, want %d", n, maxCountedActors+1)
		}
		deny := func(name string) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			guard.Denied(withIdentity(r, Identity{Name: name, Role: Viewer, By: ByToken}, nil),
				&permission.DeniedError{Target: permission.Target{Kind: permission.Everything}})
		}
		for i := range 40 {
			for range 2 * eventsPerActor {
				deny(fmt.Sprintf("user-%d", i))
			}
		}
		events.Take()
		deny("quiet")
		if lines := events.Take(); len(lines) != 1 ||
			!strings.HasPrefix(lines[0], "refused everything by quiet ") {
			t.Errorf("the first line of another user: got %q", lines)
		}
		accesstest.CookieOf(t, handler, "anna", "correct horse")
		taken(t, "a sign-in meanwhile", events, `sign_in page by anna (page, password) null`)
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
