package servertest_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// TestBalancerRemovesUserHeaders checks that a client of deploy/haproxy.cfg can set neither a user
// nor an address, and cannot reach /metrics by any spelling of the path.
func TestBalancerRemovesUserHeaders(t *testing.T) {
	skipWithShort(t)
	forged := []string{"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-Username",
		"X-Auth-Request-User", "X-Remote-User", "Remote-User", "Forwarded"}
	seen := make(chan *http.Request, 1)
	replica := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" && r.URL.Path != "/healthz" {
			seen <- r
		}
	}))
	t.Cleanup(replica.Close)
	address := replica.Listener.Addr().String()
	proxy := servertest.NewBalancer(t, "../../../deploy/haproxy.cfg",
		servertest.NewAuthority(t).IssueBoth(t, "127.0.0.1"), "ready", address, address, address)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	get := func(path string, headers ...string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL()+path,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range headers {
			request.Header.Set(name, "olga@example.com")
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		return response.StatusCode
	}
	if status := get("/jobs/a%2Fb", append(forged, "X-Forwarded-For")...); status != http.StatusOK {
		t.Fatal(fmt.Errorf("found %d, expected the replica's answer", status))
	}
	r := <-seen
	for _, name := range forged {
		if values := r.Header.Values(name); len(values) > 0 {
			t.Errorf("%s reached the replica: %q", name, values)
		}
	}
	if got := r.Header.Values("X-Forwarded-For"); len(got) != 1 || got[0] != "127.0.0.1" {
		t.Errorf("X-Forwarded-For is %q, expected the client's address", got)
	}
	if r.RequestURI != "/jobs/a%2Fb" {
		t.Errorf("the replica got %s, expected the encoded name", r.RequestURI)
	}
	for _, path := range []string{"/metrics", "/%6detrics", "/m%65trics?a=b", "//metrics",
		"/.//metrics", "/%2E/metrics", "/x/../metrics", "/x/%2e%2e%2Fmetrics", "/metrics/"} {
		if status := get(path); status != http.StatusNotFound {
			t.Errorf("%s: found %d, expected 404", path, status)
			<-seen
		}
	}
}

// TestBalancerSendsItsSecret enables the line with the secret. A client must not be able to choose
// the secret.
func TestBalancerSendsItsSecret(t *testing.T) {
	skipWithShort(t)
	t.Setenv("HOLDFAST_PROXY_SECRET", "a+b/c=d%e")
	text, err := os.ReadFile("../../../deploy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	const line = "http-request set-header X-Proxy-Secret"
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, bytes.Replace(text, []byte("#"+line), []byte(line), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(chan []string, 1)
	replica := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jobs" {
			seen <- r.Header.Values("X-Proxy-Secret")
		}
	}))
	t.Cleanup(replica.Close)
	address := replica.Listener.Addr().String()
	proxy := servertest.NewBalancer(t, file, servertest.NewAuthority(t).IssueBoth(t, "127.0.0.1"),
		"ready", address, address, address)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL()+"/jobs",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Proxy-Secret", "of the client")
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %d, %v, want 200", response.StatusCode, err)
	}
	if got := <-seen; !slices.Equal(got, []string{"a+b/c=d%e"}) {
		t.Errorf("the replica got the secrets %q", got)
	}
}

// TestBalancerProvesItselfByACertificate enables the line with TLS to the replicas. HAProxy checks
// replicas with TLS too; otherwise NewBalancer would find none of them ready.
func TestBalancerProvesItselfByACertificate(t *testing.T) {
	skipWithShort(t)
	text, err := os.ReadFile("../../../deploy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	authority := servertest.NewAuthority(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(
		"#default-server ssl", "default-server ssl",
		"/etc/haproxy/replicas-ca.pem", authority.File,
		"/etc/haproxy/proxy.pem", authority.IssueBoth(t, "proxy.example.com"),
	).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	replica := httptest.NewUnstartedServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/jobs" {
				seen <- r.TLS.VerifiedChains[0][0].Subject.CommonName
			}
		}))
	pair, err := tls.LoadX509KeyPair(authority.Issue(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	replica.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authority.Pool,
		ClientAuth: tls.VerifyClientCertIfGiven}
	replica.StartTLS()
	t.Cleanup(replica.Close)
	address := replica.Listener.Addr().String()
	proxy := servertest.NewBalancer(t, file, servertest.NewAuthority(t).IssueBoth(t, "127.0.0.1"),
		"ready", address, address, address)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Get(proxy.URL() + "/jobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %d, %v, want 200", response.StatusCode, err)
	}
	if got := <-seen; got != "proxy.example.com" {
		t.Errorf("the certificate has the name %q", got)
	}
}
