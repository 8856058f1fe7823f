package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

// TestHTTPRedirectsToAnotherHost checks that a redirect to another host is followed only if the job
// allows it, and passes on neither the body nor headers with secrets.
func TestHTTPRedirectsToAnotherHost(t *testing.T) {
	reached := make(chan *http.Request, 1)
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { reached <- r })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusFound
		if r.URL.Path == "/307" {
			status = http.StatusTemporaryRedirect
		}
		target := other + "/target"
		if r.URL.Path == "/relative" {
			target = strings.TrimPrefix(target, "http:")
		}
		http.Redirect(w, r, target, status)
	})
	call := func(path string, more object) error {
		params := object{"url": url + path, "headers": object{"X-Api-Key": "hunter2"}}
		for key, value := range more {
			params[key] = value
		}
		return mustBind(t, "http", params)(t.Context(), newRun("j"))
	}
	host := strings.TrimPrefix(other, "http://")
	wantError(t, call("/302?key=hunter2", nil), `redirect to host "`+host+`" not followed`)
	wantError(t, call("/307", object{"body": "x", "follow_redirects": "same_host"}), "not followed")
	wantError(t, call("/307", object{"body": "x", "follow_redirects": "any"}),
		"it would get the body")
	wantError(t, call("/302", object{"follow_redirects": "none"}), "found 302")
	if len(reached) != 0 {
		t.Fatalf("the other host got %v", (<-reached).Header)
	}
	if err := call("/302?key=hunter2", object{"follow_redirects": "any"}); err != nil {
		t.Fatal(err)
	}
	got := <-reached
	for _, name := range []string{"X-Api-Key", "X-Holdfast-Token", "X-Holdfast-Run", "Referer"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("the other host got %s: %q", name, value)
		}
	}
	if err := call("/relative", object{"follow_redirects": "any",
		"headers": object{"Host": "inside.example"}}); err != nil {
		t.Fatal(err)
	}
	if got := <-reached; got.Host != host {
		t.Errorf("the other host got the host %q, want %q", got.Host, host)
	}
	_, err := bind(t, "http", `{"url": "`+url+`", "follow_redirects": "all"}`)
	wantError(t, err, `follow_redirects: found "all", expected "same_host", "none" or "any"`)
}

// TestHTTPRedirectsToRefusedTargets checks that the rules for targets apply to redirects.
func TestHTTPRedirectsToRefusedTargets(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://other.corp/", http.StatusFound)
	})
	rules, err := egress.NewRules(nil, []string{"*.corp"})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := jobs.NewRegistry(handlers.HTTP(&http.Client{Transport: rules.NewTransport()}))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := registry.Bind("http",
		json.RawMessage(`{"url": "`+url+`", "follow_redirects": "any"}`))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, handler(t.Context(), newRun("j")), "target other.corp refused")
}

// TestHTTPSendsNoReferer checks that a redirect on the same host keeps the headers of the job but
// has no Referer, because the query of the first URL may be secret.
func TestHTTPSendsNoReferer(t *testing.T) {
	reached := make(chan *http.Request, 2)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/next", http.StatusFound)
		}
	})
	params := object{"url": url + "/?key=hunter2", "headers": object{"X-Api-Key": "hunter2"}}
	if err := mustBind(t, "http", params)(t.Context(), newRun("j")); err != nil {
		t.Fatal(err)
	}
	<-reached
	got := <-reached
	if got.Header.Get("Referer") != "" || got.Header.Get("X-Api-Key") != "hunter2" {
		t.Errorf("headers %v", got.Header)
	}
}

// TestHTTPRefusesMetadataServices checks that requests to cloud metadata services are refused,
// because those return the credentials of the machine.
func TestHTTPRefusesMetadataServices(t *testing.T) {
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]",
		"[fd00:ec2::254]", "100.100.100.200"} {
		params := object{"url": "http://" + host + "/latest/meta-data/", "timeout": "5s"}
		wantError(t, mustBind(t, "http", params)(t.Context(), newRun("j")),
			"link-local addresses and metadata services")
	}
}
