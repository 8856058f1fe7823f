package admin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// TestOIDCInABrowser signs in with a provider on another site, and signs out.
func TestOIDCInABrowser(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var provider *httptest.Server
	nonce := make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		nonce <- r.FormValue("nonce")
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+url.Values{"code": {"c"},
			"state": {r.FormValue("state")}}.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		claims, _ := json.Marshal(map[string]any{"iss": provider.URL, "aud": "holdfast",
			"exp": time.Now().Add(time.Hour).Unix(), "nonce": <-nonce,
			"email": "otto@example.com", "email_verified": true})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "x",
			"token_type": "Bearer",
			"id_token":   oidctest.SignIDToken(key, "k", "ES256", string(claims))})
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("signed out at the provider"))
	})
	const document = "/.well-known/openid-configuration"
	mux.HandleFunc(document, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": provider.URL,
			"authorization_endpoint": provider.URL + "/auth",
			"token_endpoint":         provider.URL + "/token", "jwks_uri": provider.URL + "/keys",
			"end_session_endpoint":                  provider.URL + "/end",
			"id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	mux.Handle("/keys", &oidctest.Server{PublicKeys: []oidctest.PublicKey{{
		PublicKey: key.Public(), KeyID: "k", Algorithm: "ES256"}}})
	provider = httptest.NewServer(mux)
	defer provider.Close()

	o := guardedOptions(t)
	o.CookieKeys = [][]byte{[]byte(strings.Repeat("k", 32))}
	server := newServer(t, o)
	page := httptest.NewServer(server.Handler())
	defer page.Close()
	// another site than the provider's
	address := strings.Replace(page.URL, "127.0.0.1", "localhost", 1)
	a := o.Access()
	a.Proxy = nil // it has an operator of the person's name
	a.OIDC = &OIDC{Issuer: provider.URL, ClientID: "holdfast", ClientSecret: "s",
		RedirectURL: address + "/login/oidc/callback", Role: Operator,
		Domains: []string{"*"}}
	if err := server.SetAccess(a); err != nil {
		t.Fatal(err)
	}
	window := tab(t)
	browsertest.Visit(t, window, address+"/jobs")
	click := func(what string) {
		browsertest.Evaluate[bool](t, window, `(document.querySelector("`+what+`").click(), true)`)
	}
	click("a.button")
	browsertest.Until(t, window, `location.pathname == "/jobs" &&
		document.querySelector(".menu bdi")?.textContent == "otto@example.com"`)
	click("form[action='/logout'] button")
	browsertest.Until(t, window,
		`document.body?.textContent.includes("signed out at the provider")`)
}
