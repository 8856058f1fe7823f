package deploytest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

const (
	site  = "scheduler.example.com"
	token = "operator-token-operator-token"
	// limit is for an answer of nginx.
	limit = 30 * time.Second
)

// startReplica runs a replica until the test ends, with more keys of admin. It returns the address
// of its page when the replica can start runs: before, the store may not know its jobs.
func startReplica(t *testing.T, keys string) string {
	t.Helper()
	config, err := configs.Parse("holdfast.yaml", fmt.Appendf(nil, "database: {url: "+
		"'sqlite://%s'}\nreplica: {name: a}\nadmin: {listen: '127.0.0.1:0', hosts: [%s], tokens: "+
		"[{name: deploy, role: operator, token_hash: %s}], %s}\njobs: [{name: once, "+
		"handler: command, params: {command: ['true']}}, {name: once/more, "+
		"handler: command, params: {command: ['true']}}]\n", filepath.Join(t.TempDir(), "test.db"), site,
		accesstest.Sum(token), keys))
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	replica, err := app.New(config, app.Options{Log: &log, Page: admin.Page,
		Connection: app.Connection{Driver: sqlite.Driver}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := replica.Open(ctx); err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := replica.Ready(ctx)
		if err == nil {
			return replica.AdminAddr()
		}
		if time.Since(began) > limit {
			t.Fatal(err)
		}
	}
}

// browser sends requests to nginx.
type browser struct {
	t      *testing.T
	client *http.Client
	scheme string
	host   string
}

// newBrowser returns a client whose requests for any host go to nginx. It trusts the authority;
// nil: the client uses plain HTTP.
func newBrowser(t *testing.T, nginx *servertest.Nginx, trusted *servertest.Authority) *browser {
	t.Helper()
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", nginx.Addr)
		}}
	b := &browser{t: t, scheme: "http", host: site, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	if trusted != nil {
		b.scheme = "https"
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted.Pool}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

// ask sends a request with headers in pairs and returns the response.
func (b *browser) ask(ctx context.Context, method, path string, header ...string) *http.Response {
	b.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, b.scheme+"://"+b.host+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { response.Body.Close() }) //nolint:errcheck // it was read
	return response
}

// get returns the status and the body of a page.
func (b *browser) get(path string, header ...string) (int, string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	response := b.ask(ctx, http.MethodGet, path, header...)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// expect checks the status of a page.
func (b *browser) expect(status int, path string, header ...string) string {
	b.t.Helper()
	got, body := b.get(path, header...)
	if got != status {
		b.t.Errorf("%s %q: got %d, want %d: %.300s", path, header, got, status, body)
	}
	return body
}

// expectEvent checks that a change reaches an open stream of events at once.
func (b *browser) expectEvent(prefix string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	stream := b.ask(ctx, http.MethodGet, prefix+"/api/v1/events", "Authorization", "Bearer "+token)
	if kind := stream.Header.Get("Content-Type"); kind != "text/event-stream" {
		b.t.Fatalf("got status %d, type %q, want a stream of events", stream.StatusCode, kind)
	}
	lines := bufio.NewScanner(stream.Body)
	triggered := false
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: ") && triggered {
			return
		}
		if !triggered {
			triggered = true
			answer := b.ask(ctx, http.MethodPost, prefix+"/api/v1/jobs/once/trigger",
				"Authorization", "Bearer "+token, "Content-Type", "application/json")
			if answer.StatusCode != http.StatusOK {
				b.t.Fatalf("trigger: got %s", answer.Status)
			}
		}
	}
	b.t.Errorf("no event: %v", lines.Err())
}

// nginxOf returns deploy/nginx.conf for these replicas, each a host:port.
func nginxOf(t *testing.T, authority *servertest.Authority, replicas ...string) string {
	t.Helper()
	certificate, key := authority.Issue(t, site)
	text := read(t, "nginx.conf")
	for old, now := range map[string]string{
		"listen 443 ":              "listen " + servertest.Listen + " ",
		"/etc/nginx/scheduler.crt": certificate,
		"/etc/nginx/scheduler.key": key,
		"10.1.0.11:8080":           replicas[0],
		"10.1.0.12:8080":           replicas[1],
		"10.1.0.13:8080":           replicas[2],
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("nginx.conf has no %q", old)
		}
		text = strings.ReplaceAll(text, old, now)
	}
	return text
}

// free returns an address at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	address, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// deploy/nginx.conf passes requests to a replica that answers, hides the metrics, and does not
// buffer events.
func TestNginx(t *testing.T) {
	needs(t, "nginx")
	t.Parallel()
	authority := servertest.NewAuthority(t)
	replica := startReplica(t, "trusted_proxy: {networks: [127.0.0.1/32]}")
	nginx := servertest.NewNginx(t, nginxOf(t, authority, free(t), replica, free(t)))
	b := newBrowser(t, nginx, authority)
	for range 6 { // two of three replicas do not answer
		b.expect(http.StatusOK, "/healthz")
	}
	b.expect(http.StatusOK, "/api/v1/jobs", "Authorization", "Bearer "+token)
	for _, path := range []string{"/metrics", "/%6detrics", "/x/../metrics", "//metrics",
		"/metrics/"} {
		b.expect(http.StatusNotFound, path, "Authorization", "Bearer "+token)
	}
	b.expectEvent("")
}

// A client cannot name its user through nginx, whatever header the replica reads.
func TestNginxRemovesForgedUsers(t *testing.T) {
	needs(t, "nginx")
	t.Parallel()
	authority := servertest.NewAuthority(t)
	for _, name := range []string{"X-Forwarded-User", "X-Auth-Request-User", "Remote-User",
		"X-Remote-User"} {
		replica := startReplica(t, "trusted_proxy: {networks: [127.0.0.1/32], user_header: "+name+
			", role: operator}")
		b := newBrowser(t, servertest.NewNginx(t, nginxOf(t, authority, replica, replica,
			replica)), authority)
		b.expect(http.StatusUnauthorized, "/api/v1/jobs", name, "olga")
		past := newBrowser(t, &servertest.Nginx{Addr: replica}, nil)
		past.expect(http.StatusOK, "/api/v1/jobs", name, "olga")
	}
}

// Over TLS with the commented lines of deploy/nginx.conf, replicas trust nginx by its client
// certificate, and nobody else.
func TestNginxWithAClientCertificate(t *testing.T) {
	needs(t, "nginx")
	t.Parallel()
	authority, others := servertest.NewAuthority(t), servertest.NewAuthority(t)
	own, ownKey := authority.Issue(t, "replica.example.com")
	replica := startReplica(t, fmt.Sprintf("tls: {cert_file: %s, key_file: %s}, trusted_proxy: "+
		"{networks: [127.0.0.1/32], user_header: X-Forwarded-User, role: operator, "+
		"client_ca_file: %s, client_names: [proxy.example.com]}", own, ownKey, authority.File))
	for _, c := range []struct {
		signs  *servertest.Authority
		status int
	}{{authority, http.StatusOK}, {others, http.StatusForbidden}} {
		certificate, key := c.signs.Issue(t, "proxy.example.com")
		text := nginxOf(t, authority, replica, replica, replica)
		text = regexp.MustCompile(`(?m)^    #proxy_ssl`).ReplaceAllString(text, "    proxy_ssl")
		text = strings.NewReplacer("proxy_pass http:", "proxy_pass https:",
			"/etc/nginx/replicas-ca.pem", authority.File, "/etc/nginx/proxy.crt", certificate,
			"/etc/nginx/proxy.key", key,
			// A proxy that signs people in sets the header instead.
			`X-Forwarded-User ""`, "X-Forwarded-User olga").Replace(text)
		b := newBrowser(t, servertest.NewNginx(t, text), authority)
		b.expect(c.status, "/api/v1/jobs")
	}
}

// The location in docs/deployment.md shows the page beneath a path, also that of a job with a slash
// in its name.
func TestNginxShowsThePageBeneathAPath(t *testing.T) {
	needs(t, "nginx")
	t.Parallel()
	block := regexp.MustCompile("(?ms)^```nginx\n(.*?)^```$").FindStringSubmatch(
		read(t, "../docs/deployment.md"))
	if block == nil {
		t.Fatal("docs/deployment.md has no location")
	}
	replica := startReplica(t, "prefix: /holdfast/, trusted_proxy: {networks: [127.0.0.1/32]}")
	b := newBrowser(t, servertest.NewNginx(t, fmt.Sprintf(
		"upstream scheduler { server %s; }\nserver {\n    listen %s;\n%s}\n", replica,
		servertest.Listen, block[1])), nil)
	page := b.expect(http.StatusOK, "/holdfast/jobs", "Authorization", "Bearer "+token)
	links := regexp.MustCompile(`(?:href|src|action)="(/[^"]*)"`).FindAllStringSubmatch(page, -1)
	for _, link := range links {
		if !strings.HasPrefix(link[1], "/holdfast/") {
			t.Errorf("the page links to %s", link[1])
		}
	}
	style := regexp.MustCompile(`href="(/holdfast/[^"]+\.css[^"]*)"`).FindStringSubmatch(page)
	if len(links) < 5 || style == nil {
		t.Fatalf("got %d links, style sheet %q", len(links), style)
	}
	b.expect(http.StatusOK, style[1])
	b.expect(http.StatusOK, "/holdfast/jobs/once%2Fmore", "Authorization", "Bearer "+token)
	b.expectEvent("/holdfast")
}

// needs skips the test with -short.
func needs(t *testing.T, program string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s", program)
	}
}
