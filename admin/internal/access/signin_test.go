package access

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func TestPlainCookieOnLoopback(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	onLoopback := func(r *http.Request) { r.Host = "localhost:8080" }
	reply := accesstest.SignIn(handler, "anna", "correct horse", onLoopback)
	cookie := reply.Result().Cookies()[0]
	if cookie.Name != "holdfast" || cookie.Secure || !cookie.HttpOnly ||
		cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie over plain HTTP on loopback is %s", cookie)
	}
	if page := accesstest.Ask(handler, http.MethodGet, "/", onLoopback,
		accesstest.WithCookie(cookie)); page.Code != http.StatusOK {
		t.Errorf("page on loopback: %d", page.Code)
	}
	if page := accesstest.Ask(handler, http.MethodGet, "/",
		accesstest.WithCookie(cookie)); page.Code != http.StatusSeeOther {
		t.Errorf("the plain cookie opens the page under its own name: %d", page.Code)
	}
	behindTLS := []func(*http.Request){onLoopback, accesstest.From("10.1.2.3:999"),
		accesstest.WithHeader("X-Forwarded-Proto", "https")}
	if got := accesstest.SignIn(handler, "anna", "correct horse", behindTLS...).Result().
		Cookies()[0]; got.Name != "__Host-holdfast" {
		t.Errorf("cookie behind a proxy with TLS is %s", got)
	}
	behindTLS[1] = accesstest.From("192.0.2.1:999")
	if got := accesstest.SignIn(handler, "anna", "correct horse", behindTLS...).Result().
		Cookies()[0]; got.Name != "holdfast" {
		t.Errorf("X-Forwarded-Proto was believed from elsewhere: %s", got)
	}
}

func TestSignInWithoutTLSIsExplained(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	reply := accesstest.SignIn(handler, "anna", "correct horse", accesstest.WithHeader("Origin", "http://"+accesstest.Host))
	if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) != 0 ||
		!strings.Contains(reply.Body.String(), "without TLS") {
		t.Errorf("got %d %s, want 403 without a cookie, because of no TLS", reply.Code, reply.Body)
	}
	for _, origin := range []string{"", "null"} {
		reply := accesstest.SignIn(handler, "anna", "correct horse",
			func(r *http.Request) { r.Header["Origin"] = []string{origin} })
		if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) != 0 {
			t.Errorf("origin %q: %d", origin, reply.Code)
		}
	}
	if reply := accesstest.SignIn(handler, "anna", "correct horse",
		accesstest.WithHeader("Origin", "https://"+accesstest.Host)); reply.Code != http.StatusSeeOther {
		t.Errorf("over TLS: %d", reply.Code)
	}
}

func TestWrongPasswords(t *testing.T) {
	var logged bytes.Buffer
	handler := handlerOf(newGuardWith(t, testPolicy(t), nil, zerolog.New(&logged)))
	for _, wrong := range [][2]string{{"anna", "wrong"}, {"anna", ""}, {"anna", "staple"},
		{"nobody", "correct horse"}, {"", ""}, {"my-secret-typed-here", ""}} {
		reply := accesstest.SignIn(handler, wrong[0], wrong[1])
		if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) != 0 ||
			!strings.Contains(reply.Body.String(), "The user or the password is wrong.") {
			t.Errorf("%v: got %d %s, want 403 without a cookie", wrong, reply.Code, reply.Body)
		}
	}
	if !strings.Contains(logged.String(), `"user":"anna"`) ||
		strings.Contains(logged.String(), "my-secret") {
		t.Errorf("log: %s", &logged)
	}
}

// TestLinkFromAnotherSiteReloads checks that the sign-in page reloads once after a link from
// another site. The browser does not send the session cookie with such a link.
func TestLinkFromAnotherSiteReloads(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	if got := accesstest.Ask(handler, http.MethodGet, "/login?next=/",
		accesstest.WithHeader("Sec-Fetch-Site", "cross-site")).Header().Get("Refresh"); got != "0" {
		t.Errorf("Refresh is %q", got)
	}
	if got := accesstest.Ask(handler, http.MethodGet, "/login?next=/",
		accesstest.WithHeader("Sec-Fetch-Site",
			"same-origin")).Header().Values("Refresh"); len(got) != 0 {
		t.Errorf("the page reloads for ever: %q", got)
	}
}

func TestNextStaysOnThisSite(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	for next, want := range map[string]string{
		"": "/", "/": "/", "/?refresh=off": "/?refresh=off",
		"/api/v1/runs?state=failed&limit=3": "/api/v1/runs?state=failed&limit=3",
		"//evil.example":                    "/", "https://evil.example/": "/",
		`/\evil.example`: "/", `\/evil.example`: "/", "javascript:alert(1)": "/",
		"evil.example": "/", "/\n/evil.example": "/", "/login": "/", "/logout": "/",
		"/login?next=/login": "/", "/" + strings.Repeat("x", 2000): "/",
		"/%2f%2fevil.example": "/%2f%2fevil.example", "///evil.example": "/", "/a\x00b": "/",
		"http:/evil.example": "/",
	} {
		form := url.Values{"user": {"anna"}, "password": {"correct horse"}, "next": {next}}
		reply := accesstest.Ask(handler, http.MethodPost, "/login", accesstest.WithForm(form),
			accesstest.WithHeader("Origin", "https://"+accesstest.Host))
		if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther || got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
}

func TestTooManyPasswordChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, testPolicy(t))
		for range maxChecks {
			guard.rules().passwordChecker.turns.active <- struct{}{}
		}
		reply := accesstest.SignIn(handlerOf(guard), "anna", "correct horse")
		if reply.Code != http.StatusServiceUnavailable || reply.Header().Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", reply.Code, reply.Header().Get("Retry-After"))
		}
	})
}

// TestEverySignInComputesTheSameHashes compares the hashes that are computed for users with hashes
// of several kinds and costs, and for an unknown name.
func TestEverySignInComputesTheSameHashes(t *testing.T) {
	costly, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost+2)
	if err != nil {
		t.Fatal(err)
	}
	argon2id, err := password.New("d")
	if err != nil {
		t.Fatal(err)
	}
	policy := Policy{Users: []User{testUser(t, "anna", "a", Viewer),
		{"bob", Viewer, string(costly)}, testUser(t, "cleo", "c", Viewer),
		{"dora", Viewer, argon2id}}}
	passwordChecker := newGuard(t, policy).rules().passwordChecker
	var want []string
	for name, right := range map[string]string{"nobody": "", "anna": "a", "bob": "x", "cleo": "c",
		"dora": "d"} {
		var costs []string
		hashes, own := passwordChecker.hashesFor(name)
		for _, hash := range hashes {
			costs = append(costs, hash.Cost())
		}
		slices.Sort(costs)
		if want == nil {
			want = costs
		}
		if len(costs) != 3 || !slices.Equal(costs, want) {
			t.Errorf("%s: %v, want %v", name, costs, want)
		}
		if (own >= 0) != (right != "") || own >= 0 && !hashes[own].Matches(right) {
			t.Errorf("%s: the own hash is %d", name, own)
		}
		if right != "" && !passwordChecker.matches(name, right) {
			t.Errorf("%s: the password is refused", name)
		}
	}
	// No user can sign in with the password of the decoy hash.
	if err := passwordChecker.check(t.Context(), attempt{name: "nobody"}, "x"); !errors.Is(err,
		errWrongPassword) {
		t.Errorf("error is %v", err)
	}
}
