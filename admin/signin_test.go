package admin

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"golang.org/x/crypto/bcrypt"
)

func user(t *testing.T, name, password string, role Role) User {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return User{Name: name, Role: role, PasswordHash: string(hash)}
}

const (
	pageHost    = "scheduler.example.com"
	deployToken = "deploy-token-deploy-token"
)

// guardedOptions have two users, two tokens and a proxy that names users.
func guardedOptions(t *testing.T) Options {
	t.Helper()
	o := contention()
	o.Users = []User{user(t, "anna", "correct horse", Operator), user(t, "vera", "staple", Viewer)}
	o.Tokens = []Token{{"deploy", Operator, sumOf(deployToken)},
		{"probe", Viewer, sumOf("probe-token")}, {"prometheus", Scraper, sumOf("scrape-token")}}
	o.Proxy = &Proxy{
		Networks:   []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		UserHeader: "X-Forwarded-User", Role: Viewer, Operators: []string{"olga@example.com"},
	}
	o.Changes = newChanges()
	o.Listen, o.Hosts = "0.0.0.0:0", []string{pageHost}
	return o
}

func guarded(t *testing.T) *Server {
	t.Helper()
	return newServer(t, guardedOptions(t))
}

// ask sends a request from another machine, under the page's name.
func ask(handler http.Handler, method, target string,
	change ...func(r *http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, nil)
	request.Host = pageHost
	for _, c := range change {
		c(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, passing(request))
	return recorder
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func withCookie(c *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(c) }
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

func withForm(values url.Values) func(*http.Request) {
	return func(r *http.Request) {
		body := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(values.Encode()))
		r.Body, r.ContentLength = body.Body, body.ContentLength
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
}

// signIn posts the form.
func signIn(handler http.Handler, name, password string,
	change ...func(r *http.Request)) *httptest.ResponseRecorder {
	form := url.Values{"user": {name}, "password": {password}, "next": {"/?refresh=off"}}
	return ask(handler, http.MethodPost, "/login",
		append([]func(*http.Request){withForm(form)}, change...)...)
}

// cookieOf signs in and returns the cookie.
func cookieOf(t *testing.T, handler http.Handler, name, password string) *http.Cookie {
	t.Helper()
	reply := signIn(handler, name, password)
	cookies := reply.Result().Cookies()
	if reply.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("sign-in of %s: %d with %d cookies: %s", name, reply.Code, len(cookies),
			reply.Body)
	}
	return cookies[0]
}

// TestNobodySignsInWithoutUsers: a server of tokens alone has no passwords.
func TestNobodySignsInWithoutUsers(t *testing.T) {
	o := guardedOptions(t)
	o.Users = nil
	if reply := signIn(newServer(t, o).Handler(), "anna",
		"correct horse"); reply.Code != http.StatusForbidden || !strings.Contains(
		reply.Body.String(), "This page has no password sign-in") {
		t.Errorf("%d %s", reply.Code, reply.Body)
	}
}

func TestSignInAndOut(t *testing.T) {
	handler := guarded(t).Handler()
	reply := ask(handler, http.MethodGet, "/?refresh=off")
	if want := "/login?next=%2F%3Frefresh%3Doff"; reply.Code != http.StatusSeeOther ||
		reply.Header().Get("Location") != want {
		t.Errorf("a stranger gets %d to %q, want %q", reply.Code, reply.Header().Get("Location"),
			want)
	}
	form := ask(handler, http.MethodGet, reply.Header().Get("Location")).Body.String()
	if !strings.Contains(form, `name="next" value="/?refresh=off"`) {
		t.Errorf("the form does not know where to go on:\n%s", form)
	}
	signed := signIn(handler, "anna", "correct horse")
	if signed.Code != http.StatusSeeOther || signed.Header().Get("Location") != "/?refresh=off" {
		t.Errorf("sign-in: %d to %q", signed.Code, signed.Header().Get("Location"))
	}
	cookie := signed.Result().Cookies()[0]
	if cookie.Name != "__Host-holdfast" || !cookie.Secure || !cookie.HttpOnly ||
		cookie.SameSite != http.SameSiteStrictMode ||
		cookie.Path != "/" || cookie.Domain != "" || cookie.MaxAge != 12*60*60 {
		t.Errorf("cookie is %s", cookie)
	}
	page := ask(handler, http.MethodGet, "/", withCookie(cookie))
	if page.Code != http.StatusOK ||
		!strings.Contains(page.Body.String(), "<bdi>anna</bdi>, operator") {
		t.Errorf("page with the cookie: %d", page.Code)
	}
	if again := ask(handler, http.MethodGet, "/login?next=/",
		withCookie(cookie)); again.Code != http.StatusSeeOther || again.Header().Get(
		"Location") != "/" {
		t.Errorf("sign-in page of who is signed in: %d", again.Code)
	}
	out := ask(handler, http.MethodPost, "/logout", withCookie(cookie))
	gone := out.Result().Cookies()
	if out.Code != http.StatusSeeOther || len(gone) != 1 || gone[0].Name != cookie.Name ||
		gone[0].MaxAge >= 0 || gone[0].Value != "" || !gone[0].Secure {
		t.Errorf("sign-out: %d, cookies %v", out.Code, gone)
	}
}

func TestPlainCookieOnLoopback(t *testing.T) {
	handler := guarded(t).Handler()
	onLoopback := func(r *http.Request) { r.Host = "localhost:8080" }
	reply := signIn(handler, "anna", "correct horse", onLoopback)
	cookie := reply.Result().Cookies()[0]
	if cookie.Name != "holdfast" || cookie.Secure || !cookie.HttpOnly ||
		cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie over plain HTTP on loopback is %s", cookie)
	}
	if page := ask(handler, http.MethodGet, "/", onLoopback,
		withCookie(cookie)); page.Code != http.StatusOK {
		t.Errorf("page on loopback: %d", page.Code)
	}
	if page := ask(handler, http.MethodGet, "/", withCookie(cookie)); page.Code != http.StatusSeeOther {
		t.Errorf("the plain cookie opens the page under its own name: %d", page.Code)
	}
	behindTLS := []func(*http.Request){onLoopback, from("10.1.2.3:999"), withHeader("X-Forwarded-Proto", "https")}
	if got := signIn(handler, "anna", "correct horse", behindTLS...).Result().
		Cookies()[0]; got.Name != "__Host-holdfast" {
		t.Errorf("cookie behind a proxy with TLS is %s", got)
	}
	behindTLS[1] = from("192.0.2.1:999")
	if got := signIn(handler, "anna", "correct horse", behindTLS...).Result().
		Cookies()[0]; got.Name != "holdfast" {
		t.Errorf("X-Forwarded-Proto was believed from elsewhere: %s", got)
	}
}

func TestSignInWithoutTLSIsExplained(t *testing.T) {
	handler := guarded(t).Handler()
	reply := signIn(handler, "anna", "correct horse", withHeader("Origin", "http://"+pageHost))
	if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) != 0 ||
		!strings.Contains(reply.Body.String(), "without TLS") {
		t.Errorf("%d %s", reply.Code, reply.Body)
	}
	if reply := signIn(handler, "anna", "correct horse",
		withHeader("Origin", "https://"+pageHost)); reply.Code != http.StatusSeeOther {
		t.Errorf("over TLS: %d", reply.Code)
	}
}

func TestWrongPasswords(t *testing.T) {
	var logged bytes.Buffer
	o := guardedOptions(t)
	o.Log = zerolog.New(&logged)
	handler := newServer(t, o).Handler()
	for _, wrong := range [][2]string{{"anna", "wrong"}, {"anna", ""}, {"anna", "staple"},
		{"nobody", "correct horse"}, {"", ""}, {"my-secret-typed-here", ""}} {
		reply := signIn(handler, wrong[0], wrong[1])
		if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) != 0 ||
			!strings.Contains(reply.Body.String(), "The user or the password is wrong.") {
			t.Errorf("%v: %d %s", wrong, reply.Code, reply.Body)
		}
	}
	if !strings.Contains(logged.String(), `"user":"anna"`) ||
		strings.Contains(logged.String(), "my-secret") {
		t.Errorf("log: %s", &logged)
	}
}

// TestLinkFromElsewhereReloads shows that the page asks again by itself where a
// link on another site led to it: the browser kept the cookie back.
func TestLinkFromElsewhereReloads(t *testing.T) {
	handler := guarded(t).Handler()
	if got := ask(handler, http.MethodGet, "/login?next=/",
		withHeader("Sec-Fetch-Site", "cross-site")).Header().Get("Refresh"); got != "0" {
		t.Errorf("Refresh is %q", got)
	}
	if got := ask(handler, http.MethodGet, "/login?next=/",
		withHeader("Sec-Fetch-Site", "same-origin")).Header().Values("Refresh"); len(got) != 0 {
		t.Errorf("the page reloads for ever: %q", got)
	}
}

func TestNextStaysHere(t *testing.T) {
	handler := guarded(t).Handler()
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
		reply := ask(handler, http.MethodPost, "/login", withForm(form))
		if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther || got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
}

func TestFormsThatCannotBeRead(t *testing.T) {
	handler := guarded(t).Handler()
	large := url.Values{"user": {"anna"}, "password": {strings.Repeat("x", maxBody)}}
	if reply := ask(handler, http.MethodPost, "/login",
		withForm(large)); reply.Code != http.StatusBadRequest {
		t.Errorf("a form of more than %d bytes: %d", maxBody, reply.Code)
	}
	if reply := ask(handler, http.MethodPost, "/login",
		withHeader("Content-Type",
			"application/x-www-form-urlencoded; %")); reply.Code != http.StatusBadRequest {
		t.Errorf("a form of unknown type: %d", reply.Code)
	}
}

func TestTooManyPasswordChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := guarded(t)
		for range maxChecks {
			server.accessRules().passwordChecker.checks <- struct{}{}
		}
		reply := signIn(server.Handler(), "anna", "correct horse")
		if reply.Code != http.StatusServiceUnavailable || reply.Header().Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", reply.Code, reply.Header().Get("Retry-After"))
		}
	})
}

func TestUnknownUserCostsTheSame(t *testing.T) {
	costly, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost+2)
	if err != nil {
		t.Fatal(err)
	}
	o := calm()
	o.Users = []User{user(t, "anna", "a", Viewer), {"bob", Viewer, string(costly)},
		user(t, "cleo", "c", Viewer)}
	passwordChecker := newServer(t, o).accessRules().passwordChecker
	if got, want := passwordChecker.decoy.Work(),
		passwordChecker.users["bob"].hash.Work(); got != want {
		t.Errorf("unknown names take %d, want %d as the costliest", got, want)
	}
	// The decoy's own password opens nothing.
	if err := passwordChecker.check(t.Context(), netip.Addr{}, "nobody", "x"); !errors.Is(err,
		errWrongPassword) {
		t.Errorf("error is %v", err)
	}
}

// tries signs in n times with a wrong password, and returns the statuses.
func tries(handler http.Handler, n int, name, address string) (statuses map[int]int) {
	statuses = make(map[int]int)
	for range n {
		statuses[signIn(handler, name, "wrong", from(address)).Code]++
	}
	return statuses
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := guarded(t).Handler()
		if got := tries(handler, maxUserFailures+1, "anna",
			"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
			t.Fatalf("tries of one user: %v", got)
		}
		right := signIn(handler, "anna", "correct horse", from("198.51.100.9:1"))
		if right.Code != http.StatusTooManyRequests || right.Header().Get("Retry-After") != "900" ||
			!strings.Contains(right.Body.String(), "15 min") {
			t.Errorf("the throttled user from another address: %d, Retry-After %q", right.Code,
				right.Header().Get("Retry-After"))
		}
		if reply := signIn(handler, "vera", "staple", from("192.0.2.1:1")); reply.Code != http.StatusSeeOther {
			t.Errorf("another user from that address: %d", reply.Code)
		}
		if got := tries(handler, maxClientFailures, "nobody",
			"192.0.2.1:2"); got[403] != maxUserFailures {
			t.Errorf("tries of a name that is not there: %v, want it like any other's", got)
		}
		if reply := signIn(handler, "vera", "staple", from("192.0.2.1:3")); reply.Code != http.StatusTooManyRequests {
			t.Errorf("after %d failures of one address: %d", maxClientFailures, reply.Code)
		}
		if reply := signIn(handler, "vera", "staple", from("192.0.2.2:3")); reply.Code != http.StatusSeeOther {
			t.Errorf("from another address: %d", reply.Code)
		}
		time.Sleep(attemptsWindow)
		if reply := signIn(handler, "anna", "correct horse",
			from("192.0.2.1:1")); reply.Code != http.StatusSeeOther {
			t.Errorf("after %s: %d", attemptsWindow, reply.Code)
		}
	})
}

// TestThrottleHoldsOverReplicas counts in a store that two replicas share.
func TestThrottleHoldsOverReplicas(t *testing.T) {
	o := guardedOptions(t)
	o.Attempts = newAttemptCounts()
	one, other := newServer(t, o).Handler(), newServer(t, o).Handler()
	if got := tries(one, maxUserFailures, "anna", "192.0.2.1:1"); got[403] != maxUserFailures {
		t.Fatalf("tries: %v", got)
	}
	if reply := signIn(other, "anna", "correct horse",
		from("192.0.2.2:1")); reply.Code != http.StatusTooManyRequests {
		t.Errorf("the other replica answers %d", reply.Code)
	}
}

// brokenAttempts is a store that does not answer.
type brokenAttempts struct{}

func (brokenAttempts) CountFailures(context.Context, ...string) ([]storage.Failures, error) {
	return nil, errors.New("store is down")
}

func (brokenAttempts) AddFailure(context.Context, time.Duration, ...string) error {
	return errors.New("store is down")
}

func TestThrottleWithoutStore(t *testing.T) {
	var logged bytes.Buffer
	o := guardedOptions(t)
	o.Attempts, o.Log = brokenAttempts{}, zerolog.New(&logged)
	handler := newServer(t, o).Handler()
	if got := tries(handler, maxUserFailures+1, "anna",
		"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
		t.Errorf("tries while the store is down: %v", got)
	}
	if reply := signIn(handler, "vera", "staple"); reply.Code != http.StatusSeeOther {
		t.Errorf("while the store is down nobody can sign in: %d", reply.Code)
	}
	if got := strings.Count(logged.String(), "store is down"); got != 1 {
		t.Errorf("the store's trouble is logged %d times, want once", got)
	}
}

func TestTalliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := newAttemptCounts()
		add := func(key string) {
			t.Helper()
			if err := counts.AddFailure(t.Context(), time.Minute, key); err != nil {
				t.Fatal(err)
			}
		}
		add("first")
		time.Sleep(time.Second)
		for i := range maxAttemptCounts + 10 {
			add(time.Duration(i).String())
		}
		if got := len(counts.byKey); got != maxAttemptCounts {
			t.Errorf("%d keys are kept, want %d", got, maxAttemptCounts)
		}
		if found, err := counts.CountFailures(t.Context(), "first"); err != nil ||
			found[0].Count != 0 {
			t.Errorf("the first is still there: %v, %v", found, err)
		}
		time.Sleep(time.Minute)
		add("last")
		if got := len(counts.byKey); got != 1 {
			t.Errorf("%d keys are kept after their time", got)
		}
	})
}

func TestAttemptKeys(t *testing.T) {
	key := func(address string) string {
		return attemptKeys("anna", netip.MustParseAddr(address))[1]
	}
	if key("2001:db8:1:2::3") != key("2001:db8:1:2:ffff::4") ||
		key("2001:db8:1:2::3") == key("2001:db8:1:3::3") {
		t.Error("an IPv6 client is not its network of 64 bits")
	}
	if key("192.0.2.1") == key("192.0.2.2") {
		t.Error("two IPv4 clients are one")
	}
	if strings.Contains(strings.Join(attemptKeys("anna", netip.Addr{}), " "), "anna") {
		t.Error("a key holds what was typed")
	}
}

// TestSignInWhileTheStoreIsDown is for three in the morning.
func TestSignInWhileTheStoreIsDown(t *testing.T) {
	o := guardedOptions(t)
	o.Store, o.Attempts = down().Store, brokenAttempts{}
	handler := newServer(t, o).Handler()
	reply := ask(handler, http.MethodGet, "/",
		withCookie(cookieOf(t, handler, "anna", "correct horse")))
	if reply.Code != http.StatusServiceUnavailable ||
		!strings.Contains(reply.Body.String(), "The store does not answer") {
		t.Errorf("%d %s", reply.Code, reply.Body)
	}
}
