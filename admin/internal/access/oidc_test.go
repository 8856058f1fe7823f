package access

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// testProvider is a provider of OpenID Connect.
type testProvider struct {
	*httptest.Server

	mu      sync.Mutex
	key     crypto.Signer
	kid     string
	alg     string
	codes   map[string]issued // authorization codes, each valid once
	refusal int               // status for unknown codes
	down    bool
	failing int
	tokens  int // number of requests for tokens
}

type issued struct {
	challenge string
	claims    map[string]any
	sign      func(claims string) string // nil: with the key of the provider
}

func newTestProvider(t *testing.T) *testProvider {
	t.Helper()
	p := &testProvider{codes: make(map[string]issued), refusal: http.StatusBadRequest}
	p.rekey(t, "RS256")
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// rekey replaces the signing key of the provider.
func (p *testProvider) rekey(t *testing.T, alg string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.alg = alg; alg == "RS256" {
		p.key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.kid = rand.Text()
}

func (p *testProvider) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// setFailing makes the provider answer all exchanges of codes with this status; 0: exchanges
// succeed.
func (p *testProvider) setFailing(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = status
}

func (p *testProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth",
			"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint":                  p.URL + "/end?x=1",
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
		})
	case "/keys":
		(&oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: p.key.Public(),
			KeyID: p.kid, Algorithm: p.alg}}}).ServeHTTP(w, r)
	case "/token":
		p.token(w, r)
	}
}

func (p *testProvider) token(w http.ResponseWriter, r *http.Request) {
	p.tokens++
	if p.failing != 0 {
		http.Error(w, "failing", p.failing)
		return
	}
	id, secret, _ := r.BasicAuth()
	code, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || id != "holdfast" || secret != "s3cret" ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != code.challenge {
		w.WriteHeader(p.refusal)
		_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "s3cret"}`))
		return
	}
	claims, err := json.Marshal(code.claims)
	if err != nil {
		panic(err)
	}
	sign := code.sign
	if sign == nil {
		sign = p.signer()
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "x", "token_type": "Bearer",
		"id_token": sign(string(claims))})
}

// signer signs tokens with the current key.
func (p *testProvider) signer() func(claims string) string {
	key, kid, alg := p.key, p.kid, p.alg
	return func(claims string) string { return oidctest.SignIDToken(key, kid, alg, claims) }
}

// policy returns a policy with the provider and two users with passwords.
func (p *testProvider) policy(t *testing.T) Policy {
	t.Helper()
	policy := testPolicy(t)
	policy.CookieKeys = [][]byte{[]byte(strings.Repeat("k", 32))}
	policy.Proxy.Operators = []string{"chief@example.com"}
	policy.OIDC = &OIDC{
		Issuer: p.URL, ClientID: "holdfast", ClientSecret: "s3cret",
		RedirectURL: "https://" + accesstest.Host + CallbackPath, Scopes: []string{"email"},
		GroupsClaim: "groups", Domains: []string{"example.com"},
		Groups: []OIDCGroup{{"sre", Operator}, {"dev", Viewer}},
	}
	return policy
}

// oidcBrowser is a browser during a sign-in by the provider.
type oidcBrowser struct {
	t        *testing.T
	provider *testProvider
	handler  http.Handler
	sent     url.Values // parameters of the request to the provider
	attempt  *http.Cookie
}

// begin follows the sign-in link to the provider.
func (p *testProvider) begin(t *testing.T, handler http.Handler, next string) *oidcBrowser {
	t.Helper()
	reply := accesstest.Ask(handler, http.MethodGet, StartPath+"?next="+url.QueryEscape(next))
	target, err := url.Parse(reply.Header().Get("Location"))
	if cookies := reply.Result().Cookies(); err != nil || len(cookies) != 1 ||
		!strings.HasPrefix(target.String(), p.URL+"/auth?") {
		t.Fatalf("%d to %s, %v, with %d cookies: %s", reply.Code, target, err, len(cookies),
			reply.Body)
	}
	b := &oidcBrowser{t: t, provider: p, handler: handler, sent: target.Query(),
		attempt: reply.Result().Cookies()[0]}
	if b.sent.Get("code_challenge_method") != "S256" || b.sent.Get("scope") != "openid email" ||
		b.attempt.SameSite != http.SameSiteLaxMode || !b.attempt.HttpOnly || !b.attempt.Secure {
		t.Errorf("sent %v with the cookie %s", b.sent, b.attempt)
	}
	return b
}

// claims are those of a user who may perform actions.
func (b *oidcBrowser) claims() map[string]any {
	return map[string]any{"iss": b.provider.URL, "aud": "holdfast", "sub": "1",
		"exp": time.Now().Add(time.Hour).Unix(), "nonce": b.sent.Get("nonce"),
		"email": "olga@example.com", "email_verified": true, "groups": []string{"x", "sre"}}
}

// code returns an authorization code with which the provider signs a user in.
func (b *oidcBrowser) code(claims map[string]any) string { return b.signedCode(claims, nil) }

// signedCode is code with a token that is signed in another way.
func (b *oidcBrowser) signedCode(claims map[string]any, sign func(claims string) string) string {
	b.provider.mu.Lock()
	defer b.provider.mu.Unlock()
	code := rand.Text()
	b.provider.codes[code] = issued{b.sent.Get("code_challenge"), claims, sign}
	return code
}

// answer sends the browser back from the provider with a code.
func (b *oidcBrowser) answer(code, state string) *httptest.ResponseRecorder {
	return accesstest.Ask(b.handler, http.MethodGet, CallbackPath+"?"+url.Values{"code": {code},
		"state": {state}}.Encode(), accesstest.WithCookie(b.attempt))
}

// finish completes the sign-in with the claims and returns the response.
func (b *oidcBrowser) finish(claims map[string]any) *httptest.ResponseRecorder {
	return b.answer(b.code(claims), b.sent.Get("state"))
}

// cookieOf returns the session cookie that the response sets, or nil.
func cookieOf(reply *httptest.ResponseRecorder) *http.Cookie {
	for _, cookie := range reply.Result().Cookies() {
		if cookie.Name == secureCookie+oidcSuffix {
			return cookie
		}
	}
	return nil
}

// identityWith returns the identity of a request with the cookie.
func identityWith(guard *Guard, cookie *http.Cookie) Identity {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = accesstest.Host
	r.AddCookie(cookie)
	identity, _ := guard.Identify(r)
	return identity
}

func TestOIDC(t *testing.T) {
	p := newTestProvider(t)
	guard := newGuard(t, p.policy(t))
	handler := handlerOf(guard)
	for _, alg := range []string{"RS256", "ES256", "RS256"} { // the provider changes its key
		p.rekey(t, alg)
		signIn := func() *httptest.ResponseRecorder {
			b := p.begin(t, handler, "/runs?state=failed")
			return b.finish(b.claims())
		}
		reply := signIn()
		// The library may still use the keys of the request before, because a goroutine frees a
		// request for keys only after its result was used. The test cannot see when this happens.
		// The tries for all keys are fewer than the 40 failures after which the guard refuses an
		// address. They end after half a minute.
		for try := 0; try < 12 && reply.Code == http.StatusForbidden; try++ {
			time.Sleep(min(50*time.Millisecond<<try, 5*time.Second))
			reply = signIn()
		}
		cookie := cookieOf(reply)
		if reply.Code != http.StatusSeeOther || cookie == nil ||
			reply.Header().Get("Location") != "/runs?state=failed" {
			t.Fatalf("%s: got %d %s, want 303 to the page and a cookie", alg, reply.Code,
				reply.Body)
		}
		if cookie.SameSite != http.SameSiteStrictMode || !cookie.HttpOnly || !cookie.Secure {
			t.Errorf("cookie is %s", cookie)
		}
		if got := identityWith(guard, cookie); got != (Identity{Name: "olga@example.com",
			Role: Operator, By: ByOIDC}) {
			t.Errorf("identity is %+v", got)
		}
	}
}

func TestOIDCRefuses(t *testing.T) {
	p := newTestProvider(t)
	var logged bytes.Buffer
	handler := handlerOf(newGuardWith(t, p.policy(t), nil, zerolog.New(&logged)))
	for name, change := range map[string]struct {
		claims map[string]any
		shown  string
	}{
		"wrong nonce":       {map[string]any{"nonce": "x"}, "failed"},
		"no nonce":          {map[string]any{"nonce": nil}, "failed"},
		"another audience":  {map[string]any{"aud": "other"}, "failed"},
		"another party":     {map[string]any{"aud": []string{"holdfast", "other"}, "azp": "other"}, "failed"},
		"another issuer":    {map[string]any{"iss": "https://evil.example"}, "failed"},
		"expired":           {map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, "failed"},
		"unverified e-mail": {map[string]any{"email_verified": false}, "not verified"},
		"e-mail not said to be verified": {map[string]any{"email_verified": nil},
			"not verified"},
		"no e-mail":           {map[string]any{"email": ""}, "not verified"},
		"another domain":      {map[string]any{"email": "olga@example.com.evil.example"}, "may not use"},
		"two domains":         {map[string]any{"email": "a@evil.example@example.com"}, "may not use"},
		"no group":            {map[string]any{"groups": []string{"x"}}, "may not use"},
		"no claim of groups":  {map[string]any{"groups": nil}, "may not use"},
		"strange groups":      {map[string]any{"groups": 7}, "failed"},
		"invisible character": {map[string]any{"email": "a\u200b@example.com"}, "may not use"},
		"control character":   {map[string]any{"email": "a\n@example.com"}, "may not use"},
	} {
		b := p.begin(t, handler, "/")
		claims := b.claims()
		maps.Copy(claims, change.claims)
		if reply := b.finish(claims); reply.Code != http.StatusForbidden ||
			cookieOf(reply) != nil || !strings.Contains(reply.Body.String(), change.shown) {
			t.Errorf("%s: got %d %s, want 403 and %q", name, reply.Code, reply.Body, change.shown)
		}
	}
	if strings.Contains(logged.String(), "s3cret") {
		t.Errorf("got the secret in the log:\n%s", logged.String())
	}
}

// TestOIDCUserOfTheConfiguration checks that a user of the provider cannot have the name of a
// configured user.
func TestOIDCUserOfTheConfiguration(t *testing.T) {
	p := newTestProvider(t)
	for name, change := range map[string]func(*Policy){
		"a token":               func(p *Policy) { p.Tokens[0].Name = "olga@example.com" },
		"a token in other case": func(p *Policy) { p.Tokens[0].Name = "Olga@Example.com" },
		"a user in other case":  func(p *Policy) { p.Users[0].Name = "OLGA@example.com" },
		"an operator of the proxy": func(p *Policy) {
			p.Proxy = &Proxy{Networks: p.Proxy.Networks, UserHeader: "X-User", Role: Viewer,
				Operators: []string{"Olga@example.com"}}
		},
	} {
		policy := p.policy(t)
		policy.Users, policy.Tokens = slices.Clone(policy.Users), slices.Clone(policy.Tokens)
		policy.Proxy = &Proxy{Networks: policy.Proxy.Networks}
		change(&policy)
		handler := newHandler(t, policy)
		b := p.begin(t, handler, "/")
		if reply := b.finish(b.claims()); reply.Code != http.StatusForbidden ||
			cookieOf(reply) != nil {
			t.Errorf("%s: %d %s", name, reply.Code, reply.Body)
		}
	}
}

func TestOIDCAnswersOfOthers(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	refused := func(what string, reply *httptest.ResponseRecorder) {
		t.Helper()
		if reply.Code != http.StatusForbidden || cookieOf(reply) != nil {
			t.Errorf("%s: got %d %s, want 403 and no cookie", what, reply.Code, reply.Body)
		}
	}
	// the cookie may belong to a later sign-in of the browser, which can still be finished
	refusedAndKept := func(what string, reply *httptest.ResponseRecorder) {
		t.Helper()
		refused(what, reply)
		if changed := reply.Result().Cookies(); len(changed) != 0 {
			t.Errorf("%s: got the cookies %v, want none", what, changed)
		}
	}
	mine, other := p.begin(t, handler, "/"), p.begin(t, handler, "/")
	refusedAndKept("another state", mine.answer(mine.code(mine.claims()), "x"))
	refusedAndKept("no state", mine.answer(mine.code(mine.claims()), ""))
	refusedAndKept("the state of another browser", mine.answer(mine.code(mine.claims()),
		other.sent.Get("state")))
	forged := *mine
	forged.attempt = &http.Cookie{Name: mine.attempt.Name, Value: mine.attempt.Value + "x"}
	refused("a forged cookie", forged.finish(mine.claims()))
	forged.attempt = &http.Cookie{Name: mine.attempt.Name, Value: ""}
	refused("no cookie", forged.finish(mine.claims()))
	without, foreign := p.begin(t, handler, "/"), p.begin(t, handler, "/")
	refused("no code", without.answer("", without.sent.Get("state")))
	refused("the code of another browser", foreign.answer(other.code(other.claims()),
		foreign.sent.Get("state")))

	code := mine.code(mine.claims())
	first := mine.answer(code, mine.sent.Get("state"))
	if cookieOf(first) == nil {
		t.Errorf("the right answer: %d %s", first.Code, first.Body)
	}
	for _, cookie := range first.Result().Cookies() {
		if cookie.Name == mine.attempt.Name && cookie.MaxAge >= 0 {
			t.Errorf("got the cookie %s, want it deleted", cookie)
		}
	}
	asked := p.tokens
	refused("a replayed code", mine.answer(code, mine.sent.Get("state")))
	refused("a second code", mine.finish(mine.claims()))
	if p.tokens != asked {
		t.Errorf("the provider got %d codes of an attempt that was finished", p.tokens-asked)
	}
	signIn := &http.Cookie{Name: secureCookie + oidcSuffix, Value: other.attempt.Value}
	if reply := accesstest.Ask(handler, http.MethodGet, "/",
		accesstest.WithCookie(signIn)); reply.Code != http.StatusSeeOther {
		t.Errorf("the cookie of an attempt is a sign-in: %d", reply.Code)
	}
}

func TestOIDCLeadsToThisSite(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`,
		StartPath, SignedOutPath} {
		b := p.begin(t, handler, next)
		if got := b.finish(b.claims()).Header().Get("Location"); got != "/" {
			t.Errorf("next %q leads to %q", next, got)
		}
	}
}

// TestOIDCPolicyAppliesAtOnce reloads the domains, the groups and the provider while a user is
// signed in.
func TestOIDCPolicyAppliesAtOnce(t *testing.T) {
	p := newTestProvider(t)
	policy := p.policy(t)
	guard := newGuard(t, policy)
	b := p.begin(t, handlerOf(guard), "/")
	cookie := cookieOf(b.finish(b.claims()))
	for name, c := range map[string]struct {
		change func(*OIDC)
		want   Role
	}{
		"nothing":          {func(*OIDC) {}, Operator},
		"role of a group":  {func(o *OIDC) { o.Groups = []OIDCGroup{{"sre", Viewer}} }, Viewer},
		"group removed":    {func(o *OIDC) { o.Groups = o.Groups[1:] }, ""},
		"role of others":   {func(o *OIDC) { o.Groups, o.Role = nil, Viewer }, Viewer},
		"domains":          {func(o *OIDC) { o.Domains = []string{"other.example"} }, ""},
		"another client":   {func(o *OIDC) { o.ClientID = "other" }, ""},
		"another provider": {func(o *OIDC) { o.Issuer = "https://other.example" }, ""},
	} {
		changed := policy
		o := *policy.OIDC
		c.change(&o)
		changed.OIDC = &o
		if err := guard.Set(changed); err != nil {
			t.Fatal(err)
		}
		if got := identityWith(guard, cookie).Role; got != c.want {
			t.Errorf("%s: role %q, want %q", name, got, c.want)
		}
	}
	policy.OIDC = nil
	if err := guard.Set(policy); err != nil {
		t.Fatal(err)
	}
	if got := identityWith(guard, cookie); !got.unauthenticated() {
		t.Errorf("without a provider: %+v", got)
	}
}

func TestOIDCSignOut(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	b := p.begin(t, handler, "/")
	cookie := cookieOf(b.finish(b.claims()))
	out := accesstest.Ask(handler, http.MethodPost, "/logout", accesstest.WithCookie(cookie))
	if gone := cookieOf(out); out.Header().Get("Location") != SignedOutPath || gone == nil ||
		gone.MaxAge >= 0 {
		t.Errorf("sign-out: %d to %q", out.Code, out.Header().Get("Location"))
	}
	if reply := accesstest.Ask(handler, http.MethodGet, "/",
		accesstest.WithCookie(cookie)); reply.Code != http.StatusSeeOther {
		t.Errorf("the cookie after the sign-out: %d", reply.Code)
	}
	page := accesstest.Ask(handler, http.MethodGet, SignedOutPath)
	want := "0; url=" + p.URL + "/end?client_id=holdfast&post_logout_redirect_uri=" +
		url.QueryEscape("https://"+accesstest.Host+"/login") + "&x=1"
	if got := page.Header().Get("Refresh"); got != want {
		t.Errorf("it leads to %q, want %q", got, want)
	}
}

// TestSignOutEndsBothSignIns signs out in a browser with a sign-in by password and one by the
// provider.
func TestSignOutEndsBothSignIns(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	b := p.begin(t, handler, "/")
	byPassword := accesstest.CookieOf(t, handler, "anna", "correct horse")
	cookies := []*http.Cookie{byPassword, cookieOf(b.finish(b.claims()))}
	out := accesstest.Ask(handler, http.MethodPost, "/logout", accesstest.WithCookie(cookies[0]),
		accesstest.WithCookie(cookies[1]))
	if got := out.Header().Get("Location"); got != SignedOutPath {
		t.Errorf("sign-out leads to %q", got)
	}
	deleted := make(map[string]bool)
	for _, cookie := range out.Result().Cookies() {
		deleted[cookie.Name] = cookie.MaxAge < 0
	}
	for _, cookie := range cookies {
		if !deleted[cookie.Name] {
			t.Errorf("%s is not deleted", cookie.Name)
		}
		if reply := accesstest.Ask(handler, http.MethodGet, "/",
			accesstest.WithCookie(cookie)); reply.Code != http.StatusSeeOther {
			t.Errorf("%s after the sign-out: %d", cookie.Name, reply.Code)
		}
	}
}

// TestOIDCWhileTheProviderIsDown starts while the provider is unavailable.
func TestOIDCWhileTheProviderIsDown(t *testing.T) {
	p := newTestProvider(t)
	p.setDown(true)
	guard := newGuard(t, p.policy(t))
	handler := handlerOf(guard)
	for _, path := range []string{StartPath, "/login"} {
		if reply := accesstest.Ask(handler, http.MethodGet, path); !strings.Contains(
			reply.Body.String(), providerTrouble) {
			t.Errorf("%s: got %d %s, want %q", path, reply.Code, reply.Body, providerTrouble)
		}
	}
	if reply := accesstest.SignIn(handler, "anna", "correct horse"); reply.Code != 303 {
		t.Errorf("a password: %d", reply.Code)
	}
	p.setDown(false)
	// a new policy reads the provider's document again at once
	if err := guard.Set(p.policy(t)); err != nil {
		t.Fatal(err)
	}
	b := p.begin(t, handler, "/")
	if reply := b.finish(b.claims()); cookieOf(reply) == nil {
		t.Errorf("afterwards: %d %s", reply.Code, reply.Body)
	}
}

// TestOIDCAnswersAreThrottled sends invalid codes until further ones are refused.
func TestOIDCAnswersAreThrottled(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden} {
		p := newTestProvider(t)
		p.refusal = status
		handler := newHandler(t, p.policy(t))
		for i := range 2 * maxClientFailures {
			b := p.begin(t, handler, "/")
			b.answer(strconv.Itoa(i+1), b.sent.Get("state"))
		}
		if p.tokens != maxClientFailures {
			t.Errorf("status %d: the provider got %d codes, want %d", status, p.tokens,
				maxClientFailures)
		}
	}
}

// TestOutageOfTheProviderIsNotThrottled sends more answers than may fail while the provider does
// not answer.
func TestOutageOfTheProviderIsNotThrottled(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	p.begin(t, handler, "/") // reads the provider's document
	p.Close()
	for i := range maxClientFailures + 2 {
		b := p.begin(t, handler, "/")
		reply := b.answer("x", b.sent.Get("state"))
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.Contains(reply.Body.String(), providerTrouble) {
			t.Fatalf("answer %d: got %d %s, want 503", i+1, reply.Code, reply.Body)
		}
	}
}

// TestFailedExchangesAreNotThrottled sends more answers than may fail while the provider cannot
// exchange codes. That is an outage, not a refusal of the people who sign in.
func TestFailedExchangesAreNotThrottled(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusTooManyRequests, http.StatusUnauthorized} {
		p.setFailing(status)
		for i := range maxClientFailures {
			b := p.begin(t, handler, "/")
			reply := b.answer("x", b.sent.Get("state"))
			if reply.Code != http.StatusServiceUnavailable ||
				!strings.Contains(reply.Body.String(), providerTrouble) {
				t.Fatalf("answer %d: got %d %s, want 503", i+1, reply.Code, reply.Body)
			}
		}
	}
	p.setFailing(0)
	b := p.begin(t, handler, "/")
	if reply := b.finish(b.claims()); cookieOf(reply) == nil {
		t.Errorf("afterwards: %d %s", reply.Code, reply.Body)
	}
}

// TestAnswersOfAnOutageAreNotThrottled sends more answers than may fail with which the provider
// reports an error of its own.
func TestAnswersOfAnOutageAreNotThrottled(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	for name, want := range map[string]int{"server_error": http.StatusServiceUnavailable,
		"temporarily_unavailable": http.StatusServiceUnavailable,
		"access_denied":           http.StatusForbidden} {
		failures := 1
		if want == http.StatusServiceUnavailable {
			failures = maxClientFailures
		}
		for i := range failures {
			b := p.begin(t, handler, "/")
			reply := accesstest.Ask(handler, http.MethodGet, CallbackPath+"?"+url.Values{
				"error": {name}, "state": {b.sent.Get("state")}}.Encode(),
				accesstest.WithCookie(b.attempt))
			if reply.Code != want || strings.Contains(reply.Body.String(),
				providerTrouble) != (want == http.StatusServiceUnavailable) {
				t.Fatalf("answer %d with %s: got %d %s, want %d", i+1, name, reply.Code,
					reply.Body, want)
			}
		}
	}
	b := p.begin(t, handler, "/")
	if reply := b.finish(b.claims()); cookieOf(reply) == nil {
		t.Errorf("afterwards: %d %s", reply.Code, reply.Body)
	}
}

// TestQueueOfOIDCAnswersIsShort checks that an answer is refused while all turns are taken, and
// that it can be sent again later.
func TestQueueOfOIDCAnswersIsShort(t *testing.T) {
	p := newTestProvider(t)
	guard := newGuard(t, p.policy(t))
	b := p.begin(t, handlerOf(guard), "/")
	code := b.code(b.claims())
	var leaves []func()
	for range maxChecks { // as by answers whose check takes long
		leave, err := guard.answers.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for range maxWaitingChecks { // as by answers that wait
		guard.answers.admitted <- struct{}{}
	}
	reply := b.answer(code, b.sent.Get("state"))
	if reply.Code != http.StatusServiceUnavailable || reply.Header().Get("Retry-After") == "" ||
		len(reply.Result().Cookies()) > 0 || !strings.Contains(reply.Body.String(), busyText) {
		t.Errorf("beyond the queue: %d, Retry-After %q, cookies %v: %s", reply.Code,
			reply.Header().Get("Retry-After"), reply.Result().Cookies(), reply.Body)
	}
	<-guard.answers.admitted
	leaves[0]()
	if reply := b.answer(code, b.sent.Get("state")); cookieOf(reply) == nil {
		t.Errorf("afterwards: %d %s", reply.Code, reply.Body)
	}
}

func TestOIDCMistakes(t *testing.T) {
	p := newTestProvider(t)
	for want, change := range map[string]func(*Policy){
		"issuer":           func(p *Policy) { p.OIDC.Issuer = "http://login.example.com" },
		"redirect URL":     func(p *Policy) { p.OIDC.RedirectURL = "https://a.example/" },
		"client id":        func(p *Policy) { p.OIDC.ClientID = "" },
		"cookie keys":      func(p *Policy) { p.CookieKeys = nil },
		"nobody a role":    func(p *Policy) { p.OIDC.Groups = nil },
		"group":            func(p *Policy) { p.OIDC.Groups[0].Role = MetricsReader },
		"the role of Op":   func(p *Policy) { p.OIDC.Role = "root" },
		"everybody a role": func(p *Policy) { p.OIDC.Role, p.OIDC.Domains = Viewer, nil },
		"not shown under this host": func(p *Policy) {
			p.OIDC.RedirectURL = "https://a.example" + CallbackPath
		},
	} {
		policy := p.policy(t)
		change(&policy)
		var found []string
		policy.Check(func(format string, _ ...any) { found = append(found, format) })
		if len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%s: got mistakes %q, want one", want, found)
		}
	}
}
