package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestSecretsAreNotServed requests every route with every proof, valid and invalid. No body,
// header, error or log line may contain a configured secret or a typed password.
func TestSecretsAreNotServed(t *testing.T) {
	var out bytes.Buffer
	o := guardedOptions(t)
	o.Log = zerolog.New(&out).Level(zerolog.TraceLevel)
	cookieKey := strings.Repeat("cookie-key-", 4)
	o.CookieKeys = [][]byte{[]byte(cookieKey)}
	files := accesstest.NewPairFiles(t, accesstest.NewPair(t, 1))
	o.Certificate = &Certificate{CertFile: files.CertFile, KeyFile: files.KeyFile}
	privateKey, err := os.ReadFile(files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t, o)
	handler := server.Handler()
	secrets := []string{
		cookieKey, hex.EncodeToString([]byte(cookieKey)),
		base64.StdEncoding.EncodeToString([]byte(cookieKey)),
		strings.Split(string(privateKey), "\n")[1],
		o.Users[0].PasswordHash, o.Users[1].PasswordHash, o.Tokens[0].Hash, o.Tokens[1].Hash,
		o.Tokens[2].Hash, accesstest.DeployToken, "probe-token", "scrape-token",
		"correct horse", "wrong-password", "wrong-token", "typed-as-name",
	}
	proofs := [][]func(*http.Request){
		nil, {accesstest.WithHeader("Authorization", "Bearer "+accesstest.DeployToken)},
		{accesstest.WithHeader("Authorization", "Bearer wrong-token")},
		{func(r *http.Request) { r.SetBasicAuth("anna", "wrong-password") }},
		{accesstest.WithHeader("X-Forwarded-User", "olga@example.com")},
		{accesstest.From("10.1.2.3:4"), accesstest.WithHeader("X-Forwarded-User", "olga@example.com")},
	}
	note := func(reply *httptest.ResponseRecorder) {
		fmt.Fprintln(&out, reply.Code, reply.Header(), reply.Body)
	}
	for _, wrong := range [][2]string{{"anna", "wrong-password"}, {"anna", "correct horse"},
		{"nobody", "wrong-password"}} {
		note(accesstest.SignIn(handler, wrong[0], wrong[1]))
	}
	// Only the sign-in page repeats the name, in its form.
	typed := accesstest.SignIn(handler, "typed-as-name", "")
	fmt.Fprintln(&out, strings.Replace(typed.Body.String(), `value="typed-as-name"`, "", 1))
	for _, proof := range proofs {
		for _, r := range server.routes() {
			note(accesstest.Ask(handler, r.method, addressOf(server, r.path), proof...))
		}
	}
	_, err = New(Options{Users: o.Users,
		Tokens:     append(o.Tokens, Token{Name: "x", Hash: "wrong-token"}),
		CookieKeys: [][]byte{[]byte("wrong-password")}})
	fmt.Fprintln(&out, err)
	if out.Len() < 50_000 {
		t.Errorf("only %d bytes were looked at", out.Len())
	}
	for _, secret := range secrets {
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("got a secret in the output: …%s…",
				out.String()[max(0, at-200):min(out.Len(), at+100)])
		}
	}
}

// TestHostileNamesOnEveryRoute sends names, parameters and paths of an attacker to every route, and
// shows hostile values from the store.
func TestHostileNamesOnEveryRoute(t *testing.T) {
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	o := hostile()
	o.Users, o.Hosts = guardedOptions(t).Users, []string{accesstest.Host}
	o.Proxy = guardedOptions(t).Proxy
	server := newServer(t, o)
	handler := server.Handler()
	as := []func(*http.Request){accesstest.From("10.1.2.3:4"),
		accesstest.WithHeader("X-Forwarded-User", script)}
	replies := map[string]*httptest.ResponseRecorder{
		"wrong sign-in": accesstest.SignIn(handler, script, script),
		"long sign-in":  accesstest.SignIn(handler, strings.Repeat(script, 100), "x"),
		"sign-in page":  accesstest.Ask(handler, http.MethodGet, "/login?next=/"+url.QueryEscape(script)),
		"stranger":      accesstest.Ask(handler, http.MethodGet, "/"+url.PathEscape(script)),
		"two names": accesstest.Ask(handler, http.MethodGet, "/",
			append(as, accesstest.WithHeader("X-Forwarded-User", script))...),
		"from abroad": accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithHeader("X-Forwarded-User", script)),
		"foreign host": accesstest.Ask(handler, http.MethodGet, "/",
			func(r *http.Request) { r.Host = script }),
	}
	for _, r := range server.routes() {
		address := strings.NewReplacer("{$}", "", "{name}", url.PathEscape(script), "{id}",
			url.PathEscape(script), "{attempt}", url.PathEscape(script), "{file}",
			url.PathEscape(script)).Replace(r.path)
		for _, query := range []string{"",
			"?" + url.QueryEscape(script) + "=" + url.QueryEscape(script),
			"?next=" + url.QueryEscape(script), "?state=" + url.QueryEscape(script)} {
			replies[r.method+" "+address+query] = accesstest.Ask(handler, r.method, address+query,
				as...)
			replies["there: "+r.method+" "+r.path+query] =
				accesstest.Ask(handler, r.method, addressOf(server, r.path)+query, as...)
		}
	}
	tag := regexp.MustCompile(`(?i)<(script|img|iframe|object|style)|\s(on[a-z]+|style)\s*=`)
	for name, reply := range replies {
		body := reply.Body.String()
		isPage := strings.HasPrefix(reply.Header().Get("Content-Type"), "text/html")
		// The header nosniff makes browsers show it as text.
		isText := strings.HasPrefix(reply.Header().Get("Content-Type"), "text/plain")
		if !isText && strings.Contains(body, "<script>") ||
			isPage && tag.MatchString(onlyTags(body)) {
			t.Errorf("%s: got %d %s, want no markup of the attacker", name, reply.Code, body)
		}
		if isPage && len(body) > 28_000 {
			t.Errorf("%s: %d bytes: long values are not cut", name, len(body))
		}
		if strings.ContainsAny(reply.Header().Get("Location"), "<>\"\n") {
			t.Errorf("%s: leads to %q", name, reply.Header().Get("Location"))
		}
	}
	if got := replies["there: GET /{$}"]; got.Code != http.StatusOK ||
		!strings.Contains(got.Body.String(), "&#34;&gt;&lt;script&gt;alert") {
		t.Errorf("the page does not show who asks: %d", got.Code)
	}
}

// onlyTags returns a page without its text, the values of its attributes and Holdfast's own
// scripts.
func onlyTags(body string) string {
	tags := slices.DeleteFunc(regexp.MustCompile(`<[^<>]*>`).FindAllString(body, -1),
		ownScript.MatchString)
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(strings.Join(tags, "\n"), `""`)
}

// TestGalleryOfSignIn renders the states of the sign-in page.
func TestGalleryOfSignIn(t *testing.T) {
	o := guardedOptions(t)
	handler := newServer(t, o).Handler()
	throttled := newServer(t, o).Handler()
	for range 100 { // exceeds the limit
		accesstest.SignIn(throttled, "anna", "wrong")
	}
	tokensOnly := o
	tokensOnly.Users = nil
	cookie := accesstest.CookieOf(t, handler, "anna", "correct horse")
	refused := accesstest.SignIn(throttled, "anna", "x")
	for name, page := range map[string]struct {
		reply *httptest.ResponseRecorder
		code  int
		has   []string
	}{
		"sign-in": {accesstest.Ask(handler, http.MethodGet, "/login?next=/"), 200,
			[]string{"<label for=\"user\">User</label>", "<label for=\"password\">Password</label>",
				`<button type="submit">Sign in</button>`}},
		"sign-in-wrong": {accesstest.SignIn(handler, "anna", "x"), 403, []string{
			`role="alert">The user or the password is wrong.`, `value="anna"`,
			`aria-invalid="true" aria-describedby="error-text" autofocus`,
		}},
		"sign-in-throttled": {refused, 429, []string{"Too many sign-ins failed",
			"Try again in " + refused.Header().Get("Retry-After") + " s."}},
		"sign-in-without-tls": {accesstest.SignIn(handler, "anna", "x",
			accesstest.WithHeader("Origin", "http://"+accesstest.Host)), 403, []string{"without TLS"}},
		"sign-in-elsewhere": {accesstest.Ask(newServer(t, tokensOnly).Handler(), http.MethodGet,
			"/login?next=/"), 200, []string{"This page has no password sign-in."}},
		"signed-in": {accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithCookie(cookie)), 200,
			[]string{`action="/logout"`, "<bdi>anna</bdi>, operator", "Sign out"}},
		"by-proxy": {accesstest.Ask(handler, http.MethodGet, "/", accesstest.From("10.1.2.3:4"),
			accesstest.WithHeader("X-Forwarded-User", "petra")), 200,
			[]string{"<bdi>petra</bdi>, viewer"}},
		"foreign-host": {accesstest.Ask(handler, http.MethodGet, "/", func(r *http.Request) {
			r.Host = "evil.example"
		}), 421, []string{"admin.hosts"}},
	} {
		body := page.reply.Body.String()
		if page.reply.Code != page.code || !strings.HasSuffix(body, "</html>\n") {
			t.Errorf("%s: got %d, want %d and a whole page", name, page.reply.Code, page.code)
		}
		for _, want := range page.has {
			if !strings.Contains(flat(body), flat(want)) {
				t.Errorf("%s lacks %q:\n%s", name, want, body)
			}
		}
		if strings.Contains(body, "Sign out") != (name == "signed-in") {
			t.Errorf("%s: only who signed in can sign out", name)
		}
		writeGallery(t, name, newServer(t, o), body)
	}
}
