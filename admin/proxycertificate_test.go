package admin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// proxied is a server with TLS whose trusted proxy needs a client certificate.
type proxied struct {
	server  *Server
	options Options
	address string
	roots   *x509.CertPool // CA certificates of the server
}

func newProxied(t *testing.T, proxy Proxy) *proxied {
	t.Helper()
	pair := accesstest.NewPair(t, 1)
	files := accesstest.NewPairFiles(t, pair)
	o := guardedOptions(t)
	o.Listen = "127.0.0.1:0"
	o.Certificate = &Certificate{CertFile: files.CertFile, KeyFile: files.KeyFile}
	proxy.UserHeader, proxy.Role = "X-Forwarded-User", Viewer
	o.Proxy = &proxy
	p := &proxied{server: newServer(t, o), options: o, roots: x509.NewCertPool()}
	p.roots.AppendCertsFromPEM(pair.Certificate)
	p.address = serve(t, p.server)
	return p
}

// client returns a client that always sends the certificate, or none if it is nil. The client
// reuses its connection.
func (p *proxied) client(t *testing.T, certificate *tls.Certificate, asked *bool) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: p.roots, GetClientCertificate: func(
		*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		*asked = true
		if certificate == nil {
			return &tls.Certificate{}, nil
		}
		return certificate, nil
	}}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get sends a request with a request id and another header, and returns the response.
func (p *proxied) get(t *testing.T, client *http.Client, header, value string) (*http.Response,
	string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://"+p.address+"/api/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", "of-the-proxy")
	request.Header.Set(header, value)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestProxyProvesItselfByACertificate(t *testing.T) {
	authority, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	loopback, elsewhere := netip.MustParsePrefix("127.0.0.1/32"),
		netip.MustParsePrefix("192.0.2.0/24")
	later := time.Now().Add(time.Hour)
	clientAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	issue := func(a *servertest.Authority, until time.Time, uses []x509.ExtKeyUsage,
		names ...string) *tls.Certificate {
		pair, err := tls.LoadX509KeyPair(a.IssueFor(t, until, uses, names...))
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	right := issue(authority, later, clientAuth, "proxy", "Proxy.example.com")
	both := []string{"a.example.com", "proxy.example.com"}
	for _, c := range []struct {
		name        string
		network     netip.Prefix
		allowed     []string
		certificate *tls.Certificate
		refusal     string // "": trusted
	}{
		{"any name", loopback, nil, right, ""},
		{"DNS name", loopback, both, right, ""},
		{"common name", loopback, []string{"proxy"}, right, ""},
		{"no certificate", loopback, nil, nil, "the connection has no client certificate"},
		{"other authority", loopback, nil, issue(other, later, clientAuth, "proxy.example.com"),
			"certificate signed by unknown authority"},
		{"expired", loopback, nil, issue(authority, time.Now().Add(-time.Minute), clientAuth,
			"proxy.example.com"), "certificate has expired"},
		{"wrong name", loopback, both, issue(authority, later, clientAuth, "web.example.com"),
			"none of the allowed names"},
		{"wildcard", loopback, both, issue(authority, later, clientAuth, "*.example.com"),
			"none of the allowed names"},
		{"certificate of a server", loopback, nil, issue(authority, later,
			[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, "proxy.example.com"),
			"incompatible key usage"},
		{"other network", elsewhere, nil, right, "127.0.0.1 is not among the networks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxied(t, Proxy{Networks: []netip.Prefix{c.network},
				ClientCAs: authority.Pool, ClientNames: c.allowed})
			var asked bool
			client := p.client(t, c.certificate, &asked)
			response, body := p.get(t, client, "X-Forwarded-User", "olga@example.com")
			switch {
			case c.refusal == "" && response.StatusCode != http.StatusOK,
				c.refusal != "" && response.StatusCode != http.StatusForbidden,
				!strings.Contains(body, c.refusal):
				t.Errorf("%s %s, want the refusal %q", response.Status, body, c.refusal)
			}
			got := response.Header.Get("X-Request-Id") == "of-the-proxy"
			if got != (c.refusal == "") {
				t.Errorf("headers of the proxy are trusted: %v", got)
			}
			if asked != (c.network == loopback) {
				t.Errorf("the server asked for a certificate: %v", asked)
			}
			if response.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", response.Proto)
			}
			if response, body := p.get(t, client, "Authorization",
				"Bearer "+accesstest.DeployToken); response.StatusCode != http.StatusOK {
				t.Errorf("a token is refused: %s %s", response.Status, body)
			}
		})
	}
}

// TestCertificateOfTheProxyIsReloaded checks that a reload removes and restores the trust in a
// proxy on an open connection.
func TestCertificateOfTheProxyIsReloaded(t *testing.T) {
	authority, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	proxy := Proxy{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		ClientCAs: authority.Pool}
	p := newProxied(t, proxy)
	pair, err := tls.LoadX509KeyPair(authority.Issue(t, "proxy.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	var asked bool
	client := p.client(t, &pair, &asked)
	access := p.options.Access()
	for _, step := range []struct {
		when    string
		cas     *x509.CertPool
		allowed []string
		want    int
	}{
		{"at first", authority.Pool, nil, http.StatusOK},
		{"with another authority", other.Pool, nil, http.StatusForbidden},
		{"with the authority again", authority.Pool, nil, http.StatusOK},
		{"with another name", authority.Pool, []string{"web"}, http.StatusForbidden},
		{"with its name", authority.Pool, []string{"proxy.example.com"}, http.StatusOK},
	} {
		next := *p.options.Proxy
		next.ClientCAs, next.ClientNames = step.cas, step.allowed
		access.Proxy = &next
		if err := p.server.SetAccess(access); err != nil {
			t.Fatal(err)
		}
		asked = false
		response, body := p.get(t, client, "X-Forwarded-User", "olga@example.com")
		if response.StatusCode != step.want {
			t.Errorf("%s: %s %s, want %d", step.when, response.Status, body, step.want)
		}
		if asked != (step.when == "at first") {
			t.Errorf("%s: a new connection is %v", step.when, asked)
		}
	}
}

func TestCertificateOfTheProxyNeedsTLS(t *testing.T) {
	o := guardedOptions(t)
	o.Proxy.ClientCAs = x509.NewCertPool()
	if _, err := New(o); !errors.Is(err, ErrOptions) ||
		!strings.Contains(err.Error(), "a proxy with a client certificate needs TLS") {
		t.Errorf("error is %v", err)
	}
	o.Proxy.ClientCAs, o.Proxy.ClientNames = nil, []string{"proxy"}
	if _, err := New(o); !errors.Is(err, ErrOptions) ||
		!strings.Contains(err.Error(), "need the authorities that sign it") {
		t.Errorf("error is %v", err)
	}
}
