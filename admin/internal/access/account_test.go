package access

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// status returns the status of a request to / with a cookie of anna.
func status(t *testing.T, p Policy, cookie *http.Cookie) int {
	t.Helper()
	return accesstest.Ask(newHandler(t, p), http.MethodGet, "/", accesstest.WithCookie(cookie)).Code
}

// TestCookieIsValidOnEveryReplica signs in on one replica and sends the cookie to another. The key
// of cookies comes from the configuration or from the password hashes.
func TestCookieIsValidOnEveryReplica(t *testing.T) {
	o := testPolicy(t)
	for name, keys := range map[string][][]byte{"derived": nil,
		"configured": {[]byte(strings.Repeat("k", 32))}} {
		o.CookieKeys = keys
		cookie := accesstest.CookieOf(t, newHandler(t, o), "anna", "correct horse")
		if got := status(t, o, cookie); got != http.StatusOK {
			t.Errorf("%s: another replica answers %d", name, got)
		}
		more := o
		more.Users = append([]User{testUser(t, "new", "x", Viewer)}, o.Users...)
		if got := status(t, more, cookie); got != http.StatusOK {
			t.Errorf("%s: a replica with another user more answers %d", name, got)
		}
	}
}

func TestCookieKeysRotate(t *testing.T) {
	old, fresh := []byte(strings.Repeat("o", 32)), []byte(strings.Repeat("f", 32))
	o := testPolicy(t)
	signedBy := func(keys ...[]byte) *http.Cookie {
		o.CookieKeys = keys
		return accesstest.CookieOf(t, newHandler(t, o), "anna", "correct horse")
	}
	byOld, byFresh := signedBy(old), signedBy(fresh, old)
	for _, c := range []struct {
		name   string
		keys   [][]byte
		cookie *http.Cookie
		want   int
	}{
		{"old cookie, both keys", [][]byte{fresh, old}, byOld, 200},
		{"new cookie, both keys", [][]byte{fresh, old}, byFresh, 200},
		{"new cookie, before the first signs", [][]byte{old, fresh}, byFresh, 200},
		{"old cookie, old key gone", [][]byte{fresh}, byOld, 303},
		{"new cookie, old key gone", [][]byte{fresh}, byFresh, 200},
		{"new cookie, old key alone", [][]byte{old}, byFresh, 303},
		{"old cookie, no keys", nil, byOld, 303},
	} {
		o.CookieKeys = c.keys
		if got := status(t, o, c.cookie); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestCookieExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, keys := range map[string][][]byte{"derived": nil,
			"configured": {[]byte(strings.Repeat("k", 32))}} {
			o := testPolicy(t)
			o.CookieKeys = keys
			cookie := accesstest.CookieOf(t, newHandler(t, o), "anna", "correct horse")

			changed := o
			// The hash has another salt.
			changed.Users = []User{testUser(t, "anna", "correct horse", Operator), o.Users[1]}
			if got := status(t, changed, cookie); got != http.StatusSeeOther {
				t.Errorf("%s: after a changed password: %d", name, got)
			}
			gone := o
			gone.Users = o.Users[1:]
			if got := status(t, gone, cookie); got != http.StatusSeeOther {
				t.Errorf("%s: user that was removed: got %d", name, got)
			}
			time.Sleep(signInLifetime - time.Second)
			if got := status(t, o, cookie); got != http.StatusOK {
				t.Errorf("%s: a second before its end: %d", name, got)
			}
			time.Sleep(time.Second)
			if got := status(t, o, cookie); got != http.StatusSeeOther {
				t.Errorf("%s: at its end: %d", name, got)
			}
			early := newGuard(t, o).rules().accounts.signSignIn("anna", 0,
				time.Now().Add(signInLifetime+2*clockMargin))
			if got := status(t, o,
				&http.Cookie{Name: secureCookie, Value: early}); got != http.StatusSeeOther {
				t.Errorf("%s: signed by a clock far ahead: %d", name, got)
			}
		}
	})
}

func TestForgedCookies(t *testing.T) {
	o := testPolicy(t)
	handler := newHandler(t, o)
	vera := accesstest.CookieOf(t, handler, "vera", "staple")
	generation, signed, _ := strings.Cut(vera.Value, ".")
	parts := strings.Split(signed, ".")
	encode := base64.RawURLEncoding.EncodeToString
	later := parts[1][:len(parts[1])-1] + string(rune('0'+(parts[1][len(parts[1])-1]-'0'+1)%10))
	otherReplica, err := newSigner(signInKeys, nil, []User{{Name: "anna", PasswordHash: "guessed"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"empty": "", "dots": "..", "another name": encode([]byte("anna")) + "." + parts[1] + "." +
			parts[2],
		"another end":     parts[0] + "." + later + "." + parts[2],
		"no signature":    parts[0] + "." + parts[1] + ".",
		"short signature": parts[0] + "." + parts[1] + "." + parts[2][:20],
		"a part more":     vera.Value + ".x", "no base64": "!." + parts[1] + "." + parts[2],
		"long": strings.Repeat("x", 5000),
		"another replica": otherReplica.sign("anna", "0 "+o.Users[0].PasswordHash,
			time.Now().Add(time.Hour)),
		"end with a sign":    parts[0] + ".+" + parts[1] + "." + parts[2],
		"no generation":      "." + signed,
		"another generation": "1." + signed, "generation with a sign": "+" + vera.Value,
	} {
		for _, value := range []string{value, generation + "." + value} {
			if reply := accesstest.Ask(handler, http.MethodGet, "/",
				accesstest.WithCookie(&http.Cookie{Name: secureCookie,
					Value: value})); reply.Code != http.StatusSeeOther {
				t.Errorf("%s: got %d, want 303", name, reply.Code)
			}
		}
	}
	// Two users with the same hash are two users.
	same := testPolicy(t)
	same.CookieKeys, same.Users[0].PasswordHash = [][]byte{[]byte(strings.Repeat("k", 32))},
		same.Users[1].PasswordHash
	twins := newHandler(t, same)
	rest := strings.SplitN(accesstest.CookieOf(t, twins, "vera", "staple").Value, ".", 3)[2]
	if reply := accesstest.Ask(twins, http.MethodGet, "/",
		accesstest.WithCookie(&http.Cookie{Name: secureCookie,
			Value: "0." + encode([]byte("anna")) + "." +
				rest})); reply.Code != http.StatusSeeOther {
		t.Errorf("another name with the same hash: %d", reply.Code)
	}
	// Another cookie of the same name does not hide the valid one.
	if reply := accesstest.Ask(handler, http.MethodGet, "/",
		accesstest.WithCookie(&http.Cookie{Name: secureCookie, Value: "x"}),
		accesstest.WithCookie(vera)); reply.Code != http.StatusOK {
		t.Errorf("behind a foreign cookie: %d", reply.Code)
	}
}

func TestRoleIsConfigured(t *testing.T) {
	o := testPolicy(t)
	cookie := accesstest.CookieOf(t, newHandler(t, o), "anna", "correct horse")
	o.Users[0].Role = Viewer
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Host = accesstest.Host
	request.AddCookie(cookie)
	if got, err := newGuard(t, o).rules().accounts.identify(request); err != nil ||
		got != (Identity{Name: "anna", Role: Viewer, By: ByPassword}) {
		t.Errorf("identity is %+v, %v", got, err)
	}
}

// TestPolicyAppliesToSignInsAtOnce reloads roles and users while users are signed in.
func TestPolicyAppliesToSignInsAtOnce(t *testing.T) {
	policy := testPolicy(t)
	guard := newGuard(t, policy)
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Host = accesstest.Host
	request.AddCookie(accesstest.CookieOf(t, handlerOf(guard), "anna", "correct horse"))
	for _, want := range []Role{Operator, Viewer, Operator} {
		policy.Users[0].Role = want
		if err := guard.Set(policy); err != nil {
			t.Fatal(err)
		}
		if got, known := guard.Identify(request); !known || got.Role != want {
			t.Errorf("identity is %+v, want a role %s", got, want)
		}
	}
	policy.Users = policy.Users[1:]
	if err := guard.Set(policy); err != nil {
		t.Fatal(err)
	}
	if got, known := guard.Identify(request); known {
		t.Errorf("a removed user is %+v", got)
	}
}

func TestIdentify(t *testing.T) {
	trusted, elsewhere := accesstest.From("10.1.2.3:999"), accesstest.From("192.0.2.1:999")
	named := func(name string) func(*http.Request) {
		return accesstest.WithHeader("X-Forwarded-User", name)
	}
	bearer := func(token string) func(*http.Request) {
		return accesstest.WithHeader("Authorization", "Bearer "+token)
	}
	accounts := newGuard(t, testPolicy(t)).rules().accounts
	for _, c := range []struct {
		name    string
		change  []func(*http.Request)
		want    Identity
		refused int
	}{
		{"stranger", nil, Identity{}, 0},
		{"token", []func(*http.Request){bearer(accesstest.DeployToken)}, Identity{Name: "deploy", Role: Operator, By: ByToken},
			0},
		{"viewer's token", []func(*http.Request){bearer("probe-token")},
			Identity{Name: "probe", Role: Viewer, By: ByToken}, 0},
		{"scraper's token", []func(*http.Request){bearer("scrape-token")},
			Identity{Name: "prometheus", Role: MetricsReader, By: ByToken}, 0},
		{"scheme in lower case", []func(*http.Request){accesstest.WithHeader("Authorization", "bearer "+accesstest.DeployToken)}, Identity{Name: "deploy", Role: Operator, By: ByToken}, 0},
		{"wrong token", []func(*http.Request){bearer(accesstest.DeployToken + "x")}, Identity{}, 401},
		{"token's hash", []func(*http.Request){bearer(accesstest.Sum(accesstest.DeployToken))}, Identity{}, 401},
		{"empty token", []func(*http.Request){bearer("")}, Identity{}, 401},
		{"Basic", []func(*http.Request){func(r *http.Request) { r.SetBasicAuth("anna", "correct horse") }}, Identity{}, 0},
		{"proxy", []func(*http.Request){trusted, named("petra@example.com")},
			Identity{Name: "petra@example.com", Role: Viewer, By: ByProxy}, 0},
		{"proxy's operator", []func(*http.Request){trusted, named("olga@example.com")},
			Identity{Name: "olga@example.com", Role: Operator, By: ByProxy}, 0},
		{"proxy's name with a colon", []func(*http.Request){trusted, named("google-oauth2:petra")},
			Identity{Name: "google-oauth2:petra", Role: Viewer, By: ByProxy}, 0},
		{"proxy and its own token", []func(*http.Request){trusted, named("olga@example.com"), bearer("eyJ")}, Identity{Name: "olga@example.com", Role: Operator, By: ByProxy}, 0},
		{"proxy without a name", []func(*http.Request){trusted}, Identity{}, 0},
		{"proxy, mapped address", []func(*http.Request){accesstest.From("[::ffff:10.1.2.3]:999"), named("petra")}, Identity{Name: "petra", Role: Viewer, By: ByProxy}, 0},
		{"name from elsewhere", []func(*http.Request){elsewhere, named("olga@example.com")},
			Identity{}, 403},
		{"empty name from elsewhere", []func(*http.Request){elsewhere, named("")}, Identity{}, 403},
		{"name from elsewhere by X-Forwarded-For", []func(*http.Request){elsewhere, named("olga@example.com"), accesstest.WithHeader("X-Forwarded-For", "10.1.2.3")}, Identity{}, 403},
		{"no address", []func(*http.Request){accesstest.From("@"), named("olga@example.com")}, Identity{},
			403},
		{"two names", []func(*http.Request){trusted, named("petra"), named("olga@example.com")},
			Identity{}, 403},
		{"empty name", []func(*http.Request){trusted, named(" ")}, Identity{}, 403},
		{"long name", []func(*http.Request){trusted, named(strings.Repeat("x", 201))}, Identity{},
			403},
		{"control character", []func(*http.Request){trusted, named("a\tb")}, Identity{}, 403},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Host = accesstest.Host
		for _, change := range c.change {
			change(request)
		}
		got, err := accounts.identify(request)
		status := 0
		if refused, ok := err.(*refusal); ok {
			status = refused.status
		}
		if got != c.want || status != c.refused || (err == nil) != (c.refused == 0) {
			t.Errorf("%s: %+v, %v; want %+v, %d", c.name, got, err, c.want, c.refused)
		}
	}
}

// TestTokensAreNotPasswords checks that a token is not accepted as a password, nor a password as a
// token.
func TestTokensAreNotPasswords(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	for _, wrong := range [][2]string{{"deploy", accesstest.DeployToken},
		{"olga@example.com", ""}} {
		if reply := accesstest.SignIn(handler, wrong[0],
			wrong[1]); reply.Code != http.StatusForbidden {
			t.Errorf("%v: got %d, want 403", wrong, reply.Code)
		}
	}
	reply := accesstest.Ask(handler, http.MethodGet, "/api/v1/locks",
		accesstest.WithHeader("Authorization", "Bearer correct horse"))
	if reply.Code != http.StatusUnauthorized ||
		reply.Header().Get("WWW-Authenticate") != `Bearer realm="Holdfast"` {
		t.Errorf("a password as a token: %d", reply.Code)
	}
}

func TestClientBehindProxy(t *testing.T) {
	proxy := &Proxy{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("fd00::/8")}}
	for _, c := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.9", "192.0.2.1"}, // not from a trusted proxy
		{"10.1.2.3:5", "", "10.1.2.3"},
		{"10.1.2.3:5", "203.0.113.9", "203.0.113.9"},
		// The client has set the first address itself.
		{"10.1.2.3:5", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
		{"10.1.2.3:5", "203.0.113.9, 10.1.9.9", "203.0.113.9"}, // through two proxies
		{"10.1.2.3:5", "203.0.113.9, nonsense", "10.1.2.3"},
		{"[fd00::1]:5", "2001:db8::7", "2001:db8::7"},
		{"[::ffff:10.1.2.3]:5", "::ffff:203.0.113.9", "203.0.113.9"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr = c.peer
		if c.forwarded != "" {
			request.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := clientOf(request, proxy).String(); got != c.want {
			t.Errorf("%s for %q is %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.RemoteAddr = "10.1.2.3:5"
	request.Header.Add("X-Forwarded-For", "203.0.113.9")
	request.Header.Add("X-Forwarded-For", "203.0.113.10")
	if got := clientOf(request, proxy).String(); got != "203.0.113.10" {
		t.Errorf("of two headers: %s", got)
	}
}

// TestBothKindsOfHashesMatch signs in by argon2id and by bcrypt.
func TestBothKindsOfHashesMatch(t *testing.T) {
	o := testPolicy(t)
	o.Users[0].PasswordHash =
		"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	handler := newHandler(t, o)
	accesstest.CookieOf(t, handler, "anna", "password")
	accesstest.CookieOf(t, handler, "vera", "staple")
}
