package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
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

// TestHTTPRedirectsBackToTheHost checks that another host cannot send the headers of the job to a
// path of its choice on the first host.
func TestHTTPRedirectsBackToTheHost(t *testing.T) {
	reached := make(chan *http.Request, 4)
	var url string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r
		http.Redirect(w, r, url+"/chosen", http.StatusFound)
	})
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, other, http.StatusFound)
		case "/chosen":
			http.Redirect(w, r, "/last", http.StatusFound)
		}
	})
	address := strings.Replace(url, "http://", "http://user:hunter2@", 1)
	params := object{"url": address + "/", "follow_redirects": "any",
		"headers": object{"X-Api-Key": "hunter2", "Host": "inside.example"}}
	if err := mustBind(t, "http", params)(t.Context(), newRun("j")); err != nil {
		t.Fatal(err)
	}
	first := <-reached
	if first.Header.Get("X-Holdfast-Token") != "42" || first.Header.Get("Authorization") == "" {
		t.Errorf("the first request had %v", first.Header)
	}
	for len(reached) > 0 {
		got := <-reached
		for _, name := range []string{"X-Api-Key", "X-Holdfast-Token", "X-Holdfast-Run",
			"Authorization", "Referer"} {
			if value := got.Header.Get(name); value != "" {
				t.Errorf("%s got %s: %q", got.URL, name, value)
			}
		}
		if got.Host == "inside.example" {
			t.Errorf("%s got the host of the job", got.URL)
		}
	}
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

// TestHTTPRedirectsThatChangeTheMethod checks that a redirect is not followed if the next request
// would be a GET that the redirect did not ask for, because that request does not do the work.
func TestHTTPRedirectsThatChangeTheMethod(t *testing.T) {
	reached := make(chan string, 10)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- r.Method + " " + r.URL.Path
		if status, err := strconv.Atoi(path.Base(r.URL.Path)); err == nil {
			http.Redirect(w, r, path.Dir(r.URL.Path), status)
		}
	})
	for _, c := range []struct {
		method, path, want string
		reached            []string
	}{
		{"POST", "/a/301", "redirect with status 301 not followed: it would change POST to GET", []string{"POST /a/301"}},
		{"POST", "/a/302", "redirect with status 302 not followed: it would change POST to GET", []string{"POST /a/302"}},
		{"DELETE", "/a/302", "redirect with status 302 not followed: it would change DELETE to GET", []string{"DELETE /a/302"}},
		{"POST", "/a/302/307", "redirect with status 302 not followed: it would change POST to GET", []string{"POST /a/302/307", "POST /a/302"}},
		{"POST", "/a/303", "", []string{"POST /a/303", "GET /a"}},
		{"POST", "/a/302/303", "", []string{"POST /a/302/303", "GET /a/302", "GET /a"}},
		{"PUT", "/a/307", "", []string{"PUT /a/307", "PUT /a"}},
		{"PUT", "/a/308", "", []string{"PUT /a/308", "PUT /a"}},
		{"GET", "/a/302", "", []string{"GET /a/302", "GET /a"}},
		{"HEAD", "/a/301", "", []string{"HEAD /a/301", "HEAD /a"}},
	} {
		err := mustBind(t, "http", object{"url": url + c.path, "method": c.method})(t.Context(),
			newRun("j"))
		if c.want != "" {
			wantError(t, err, c.want)
		} else if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
		var got []string
		for len(reached) > 0 {
			got = append(got, <-reached)
		}
		if !slices.Equal(got, c.reached) {
			t.Errorf("%s %s: the server got %q, want %q", c.method, c.path, got, c.reached)
		}
	}
	err := mustBind(t, "http", object{"url": url + "/a/302", "method": "POST",
		"expect_status": []int{302}})(t.Context(), newRun("j"))
	if err != nil {
		t.Errorf("an expected redirect: %v", err)
	}
}

// TestHTTPRedirectsThatLeaveTLS checks the error for a redirect to the same host without TLS.
func TestHTTPRedirectsThatLeaveTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	registry, err := jobs.NewRegistry(handlers.HTTP(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := registry.Bind("http", json.RawMessage(`{"url": "`+server.URL+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, handler(t.Context(), newRun("j")),
		"redirect from https to http not followed: expected https, or follow_redirects: any")
}
