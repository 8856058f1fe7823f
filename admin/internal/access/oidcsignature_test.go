package access

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// signHMAC signs claims with a secret. A key of nil makes an empty signature.
func signHMAC(alg, kid string, key []byte) func(claims string) string {
	return func(claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		text := encode(fmt.Appendf(nil, `{"alg": %q, "kid": %q, "typ": "JWT"}`, alg, kid)) + "." +
			encode([]byte(claims))
		if key == nil {
			return text + "."
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return text + "." + encode(mac.Sum(nil))
	}
}

// TestOIDCRefusesSignatures sends tokens that the provider's current key did not sign.
func TestOIDCRefusesSignatures(t *testing.T) {
	p := newTestProvider(t)
	handler := newHandler(t, p.policy(t))
	accepted := func() {
		t.Helper()
		b := p.begin(t, handler, "/")
		if reply := b.finish(b.claims()); cookieOf(reply) == nil {
			t.Fatalf("the key of the provider: %d %s", reply.Code, reply.Body)
		}
	}
	accepted() // the replica has read the key, which the provider then replaces
	oldKey, oldSign := p.key, p.signer()
	p.rekey(t, "RS256")
	accepted()
	public, ok := p.key.Public().(*rsa.PublicKey)
	if !ok {
		t.Fatalf("the key of the provider is a %T", p.key.Public())
	}
	other := newTestProvider(t)
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]func(claims string) string{
		"the old key": oldSign,
		"the old key under the new id": func(claims string) string {
			return oidctest.SignIDToken(oldKey, p.kid, "RS256", claims)
		},
		"another key under the same id": func(claims string) string {
			return oidctest.SignIDToken(other.key, p.kid, "RS256", claims)
		},
		"no signature":                    signHMAC("none", p.kid, nil),
		"the client secret":               signHMAC("HS256", p.kid, []byte("s3cret")),
		"the public key (DER) as secret":  signHMAC("HS256", p.kid, der),
		"the public key (PEM) as secret":  signHMAC("HS256", p.kid, pemOf(der)),
		"the modulus of the public key":   signHMAC("HS256", p.kid, public.N.Bytes()),
		"the public key as secret, RS256": signHMAC("RS256", p.kid, der),
	} {
		b := p.begin(t, handler, "/")
		reply := b.answer(b.signedCode(b.claims(), sign), b.sent.Get("state"))
		if reply.Code != http.StatusForbidden || cookieOf(reply) != nil {
			t.Errorf("%s: got %d %s, want 403 and no cookie", name, reply.Code, reply.Body)
		}
	}
	accepted()
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
