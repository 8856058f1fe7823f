package admin

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func user(t *testing.T, name, password string, role Role) User {
	t.Helper()
	return User{Name: name, Role: role, PasswordHash: accesstest.Hash(t, password)}
}

// guardedOptions have two users, two tokens and a trusted proxy that names users.
func guardedOptions(t *testing.T) Options {
	t.Helper()
	o := contention()
	o.Users = []User{user(t, "anna", "correct horse", Operator), user(t, "vera", "staple", Viewer)}
	o.Tokens = []Token{{Name: "deploy", Role: Operator,
		Hash: accesstest.Sum(accesstest.DeployToken)},
		{Name: "probe", Role: Viewer, Hash: accesstest.Sum("probe-token")},
		{Name: "prometheus", Role: MetricsReader, Hash: accesstest.Sum("scrape-token")}}
	o.Proxy = &Proxy{
		Networks:   []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		UserHeader: "X-Forwarded-User", Role: Viewer, Operators: []string{"olga@example.com"},
	}
	o.Changes = newChanges()
	o.Listen, o.Hosts = "0.0.0.0:0", []string{accesstest.Host}
	return o
}

func guarded(t *testing.T) *Server {
	t.Helper()
	return newServer(t, guardedOptions(t))
}

// TestNoSignInWithoutUsers checks that a server with tokens only has no sign-in page.
func TestNoSignInWithoutUsers(t *testing.T) {
	o := guardedOptions(t)
	o.Users = nil
	reply := accesstest.SignIn(newServer(t, o).Handler(), "anna", "correct horse")
	if reply.Code != http.StatusForbidden ||
		!strings.Contains(reply.Body.String(), "This page has no password sign-in") {
		t.Errorf("got %d %s, want 403 and that there is no password sign-in", reply.Code,
			reply.Body)
	}
}

func TestSignInAndOut(t *testing.T) {
	handler := guarded(t).Handler()
	reply := accesstest.Ask(handler, http.MethodGet, "/?refresh=off")
	if want := "/login?next=%2F%3Frefresh%3Doff"; reply.Code != http.StatusSeeOther ||
		reply.Header().Get("Location") != want {
		t.Errorf("a stranger gets %d to %q, want %q", reply.Code, reply.Header().Get("Location"),
			want)
	}
	form := accesstest.Ask(handler, http.MethodGet, reply.Header().Get("Location")).Body.String()
	if !strings.Contains(form, `name="next" value="/?refresh=off"`) {
		t.Errorf("the form does not know where to go on:\n%s", form)
	}
	signed := accesstest.SignIn(handler, "anna", "correct horse")
	if signed.Code != http.StatusSeeOther || signed.Header().Get("Location") != "/?refresh=off" {
		t.Errorf("sign-in: %d to %q", signed.Code, signed.Header().Get("Location"))
	}
	cookie := signed.Result().Cookies()[0]
	if cookie.Name != "__Host-holdfast" || !cookie.Secure || !cookie.HttpOnly ||
		cookie.SameSite != http.SameSiteStrictMode ||
		cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge != 12*60*60 {
		t.Errorf("cookie is %s", cookie)
	}
	page := accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithCookie(cookie))
	if page.Code != http.StatusOK ||
		!strings.Contains(page.Body.String(), "<bdi>anna</bdi>, operator") {
		t.Errorf("page with the cookie: %d", page.Code)
	}
	if again := accesstest.Ask(handler, http.MethodGet, "/login?next=/",
		accesstest.WithCookie(cookie)); again.Code != http.StatusSeeOther || again.Header().Get(
		"Location") != "/" {
		t.Errorf("sign-in page of who is signed in: %d", again.Code)
	}
	out := accesstest.Ask(handler, http.MethodPost, "/logout", accesstest.WithCookie(cookie))
	gone := out.Result().Cookies()
	if out.Code != http.StatusSeeOther || len(gone) != 1 || gone[0].Name != cookie.Name ||
		gone[0].MaxAge >= 0 || gone[0].Value != "" || !gone[0].Secure {
		t.Errorf("sign-out: got %d, cookies %v, want 303 and one without a value", out.Code, gone)
	}
}

func TestMalformedForms(t *testing.T) {
	handler := guarded(t).Handler()
	large := url.Values{"user": {"anna"}, "password": {strings.Repeat("x", maxBody)}}
	if reply := accesstest.Ask(handler, http.MethodPost, "/login",
		accesstest.WithForm(large)); reply.Code != http.StatusBadRequest {
		t.Errorf("a form of more than %d bytes: %d", maxBody, reply.Code)
	}
	if reply := accesstest.Ask(handler, http.MethodPost, "/login",
		accesstest.WithHeader("Content-Type",
			"application/x-www-form-urlencoded; %")); reply.Code != http.StatusBadRequest {
		t.Errorf("a form of unknown type: %d", reply.Code)
	}
}

// TestSlowedSignInsAreShown guesses anna's password. Operators and anna must see that.
func TestSlowedSignInsAreShown(t *testing.T) {
	o := guardedOptions(t)
	o.Users = append(o.Users, user(t, "olga", "battery", Operator))
	o.Users[0].Role = Viewer
	handler := newServer(t, o).Handler()
	cookies := map[string]*http.Cookie{"anna": accesstest.CookieOf(t, handler, "anna",
		"correct horse"),
		"vera": accesstest.CookieOf(t, handler, "vera", "staple"),
		"olga": accesstest.CookieOf(t, handler, "olga", "battery")}
	shown := func(name, path string) bool {
		t.Helper()
		page := accesstest.Ask(handler, http.MethodGet, path, accesstest.WithCookie(cookies[name]))
		if page.Code != http.StatusOK {
			t.Errorf("%s: got %d, want 200", path, page.Code)
		}
		return strings.Contains(page.Body.String(), "20 sign-ins as user anna failed")
	}
	check := func(guesses int, sees ...string) {
		t.Helper()
		for name := range cookies {
			for _, path := range []string{"/", "/api/v1/overview"} {
				if got, want := shown(name, path), slices.Contains(sees, name); got != want {
					t.Errorf("after %d guesses, %s on %s: %t, want %t", guesses, name, path, got,
						want)
				}
			}
		}
	}
	check(0)
	for range 20 {
		accesstest.SignIn(handler, "anna", "wrong", accesstest.From("192.0.2.1:1"))
	}
	check(20, "anna", "olga")
}

// TestSignInWhileTheStoreIsDown checks that operators can sign in during an outage of the store.
func TestSignInWhileTheStoreIsDown(t *testing.T) {
	o := guardedOptions(t)
	o.Store, o.LoginAttempts = down().Store, accesstest.BrokenLoginAttempts{}
	handler := newServer(t, o).Handler()
	reply := accesstest.Ask(handler, http.MethodGet, "/",
		accesstest.WithCookie(accesstest.CookieOf(t, handler, "anna", "correct horse")))
	if reply.Code != http.StatusServiceUnavailable ||
		!strings.Contains(reply.Body.String(), "The database does not answer") {
		t.Errorf("got %d %s, want 503 and that the store does not answer", reply.Code, reply.Body)
	}
}
