package attacks

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// TestRow18 goes through the HAProxy of deploy, and past it.
func TestRow18(t *testing.T) {
	a := begin(t, 18)
	authority, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	certificate, key := authority.Issue(t, "127.0.0.1")
	g := a.start(plan{secure: true, admin: a.guarded() + fmt.Sprintf(", tls: {cert_file: %s, "+
		"key_file: %s}, trusted_proxy: {networks: [127.0.0.1/32], user_header: X-Forwarded-User, "+
		"role: operator, client_ca_file: %s, client_names: [proxy.example.com]}", certificate, key,
		authority.File)})
	text, err := os.ReadFile("../../../deploy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(
		"#default-server ssl", "default-server ssl",
		"/etc/haproxy/replicas-ca.pem", authority.File,
		"/etc/haproxy/proxy.pem", authority.IssueBoth(t, "proxy.example.com"),
		// A proxy that signs people in sets the header behind this line.
		"option forwardfor\n", "option forwardfor\n    http-request set-header X-Forwarded-User "+
			"olga if { req.hdr(X-Signed-In) -m found }\n",
	).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(g.URL, "https://")
	balancer := servertest.NewBalancer(t, file, other.IssueBoth(t, "127.0.0.1"), "ready", address,
		address, address)
	direct := g.URL
	proxied := func(path string, header map[string]string) reply {
		g.URL = balancer.URL()
		defer func() { g.URL = direct }()
		return g.ask(request{path: path, header: header})
	}
	const jobs = "/api/v1/jobs"
	if got := proxied(jobs, map[string]string{"X-Signed-In": "1"}); got.status != http.StatusOK {
		a.Errorf("signed in by the proxy: %d %s", got.status, got.body)
	}
	forged := 0
	for _, name := range []string{"X-Forwarded-User", "x-forwarded-user", "X-Auth-Request-User",
		"Remote-User", "X-Remote-User", "Forwarded"} {
		if got := proxied(jobs, map[string]string{name: "olga"}); got.status ==
			http.StatusUnauthorized {
			forged++
		} else {
			a.Errorf("forged %s through the proxy: %d", name, got.status)
		}
	}
	hidden := 0
	for _, path := range []string{"/metrics", "/%6detrics", "/m%65trics", "/x/../metrics",
		"/%2E/metrics", "//metrics", "/metrics/"} {
		if got := proxied(path, nil); got.status == http.StatusNotFound {
			hidden++
		} else {
			a.Errorf("%s through the proxy: %d", path, got.status)
		}
	}
	client := func(from *servertest.Authority, name string) *http.Client {
		c := clientFrom("")
		if from != nil {
			pair, err := tls.LoadX509KeyPair(from.Issue(t, name))
			if err != nil {
				t.Fatal(err)
			}
			c.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(
				*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair, nil
			}
		}
		return c
	}
	claim := func(c *http.Client) int {
		return g.ask(request{path: jobs, client: c,
			header: map[string]string{"X-Forwarded-User": "olga"}}).status
	}
	past := []int{claim(client(nil, "")), claim(client(other, "proxy.example.com")),
		claim(client(authority, "web.example.com")), claim(client(authority, "proxy.example.com"))}
	if fmt.Sprint(past) != "[403 403 403 200]" {
		a.Errorf("past the proxy: %v, want only the last one to be trusted", past)
	}
	g.reload(authority.File, other.File)
	after := claim(client(authority, "proxy.example.com"))
	if after != http.StatusForbidden {
		a.Errorf("after a reload with another authority: %d", after)
	}
	a.report("%d of 6 forged user headers and %d of 7 spellings of /metrics stopped by HAProxy; "+
		"past it: no certificate %d, other authority %d, other name %d, its certificate %d, and "+
		"%d after SIGHUP with another authority", forged, hidden, past[0], past[1], past[2],
		past[3], after)
}

// TestRow19 looks for headers, signs in without TLS and without Origin, and adds names with
// characters that change the direction of text.
func TestRow19(t *testing.T) {
	a := begin(t, 19)
	secure := a.start(plan{name: "secure", secure: true, admin: a.guarded() + ", " + a.tlsKeys()})
	page := secure.ask(request{path: "/login"})
	for _, name := range []string{"Strict-Transport-Security", "Permissions-Policy",
		"Content-Security-Policy", "X-Content-Type-Options"} {
		if page.header.Get(name) == "" {
			a.Errorf("no header %s: %v", name, page.header)
		}
	}
	plain := a.start(plan{name: "plain", admin: a.guarded()})
	form := map[string][]string{"user": {"anna"}, "password": {passphrase}}
	refused := 0
	for _, origin := range []string{"", "http://scheduler.example.com", "null"} {
		q := request{path: "/login", host: "scheduler.example.com", form: form,
			header: map[string]string{}}
		if origin != "" {
			q.header["Origin"] = origin
		}
		if answer := plain.ask(q); answer.status == http.StatusForbidden &&
			len(answer.cookies) == 0 {
			refused++
		} else {
			a.Errorf("sign-in over HTTP with the origin %q: %d", origin, answer.status)
		}
	}
	names := 0
	for _, c := range []string{"\u202e", "\u2066", "\u200f", "\u061c"} {
		answer := plain.ask(request{path: "/api/v1/jobs", token: operatorToken,
			json: `{"reason": "x", "job": {"name": ` + quoted("a"+c+"b") + `, "handler": "sql", ` +
				`"params": {"statement": "SELECT 1"}}}`})
		if answer.status == http.StatusUnprocessableEntity {
			names++
		} else {
			a.Errorf("a name with %q: %d", c, answer.status)
		}
	}
	a.report("HSTS and Permissions-Policy are set with TLS; %d of 3 sign-ins over HTTP and %d of "+
		"4 names with control characters for the direction of text were refused", refused, names)
}
