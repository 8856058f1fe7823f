package admin

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// send sends a request from loopback as a program does.
func send(handler http.Handler, method, path string,
	header http.Header) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, nil)
	request.Host = "localhost:8080"
	request.Header.Set(access.ActionHeader, "1")
	for name, values := range header {
		request.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, accesstest.Passing(request))
	return recorder
}

func TestCrossOriginIsRefused(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Origin": {"https://evil.example"}},
	} {
		reply := send(handler, http.MethodPost, "/api/v1/locks", header)
		if form := send(handler, http.MethodPost, "/login",
			header); form.Code != http.StatusForbidden {
			t.Errorf("%v: the sign-in form from another site: %d", header, form.Code)
		}
		if reply.Code != http.StatusForbidden || !json.Valid(reply.Body.Bytes()) {
			t.Errorf("%v: got %d %s, want 403 and JSON", header, reply.Code, reply.Body)
		}
	}
}

// TestRedirectsDoNotActWithoutUsers checks that an action is refused if a local program was
// redirected to it by another service.
func TestRedirectsDoNotActWithoutUsers(t *testing.T) {
	server, c := acting(t)
	page := httptest.NewServer(server.Handler())
	defer page.Close()
	service := httptest.NewServer(http.RedirectHandler(page.URL+"/api/v1/groups/loads/pause",
		http.StatusTemporaryRedirect))
	defer service.Close()
	reply, err := http.Post(service.URL, "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusForbidden || !json.Valid(body) ||
		!strings.Contains(string(body), "X-Holdfast-Action: 1") || len(c.pauses) > 0 {
		t.Errorf("%d %s, %d pauses", reply.StatusCode, body, len(c.pauses))
	}
}

func TestForeignHostIsRefusedWithoutUsers(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	cases := map[string]int{
		"localhost": 200, "localhost:8080": 200, "LOCALHOST.:8080": 200, "127.0.0.1": 200,
		"127.1.2.3:80": 200,
		"[::1]":        200, "[::1]:8080": 200, "holdfast.localhost:8080": 200,
		"evil.example": 421, "evil.example:8080": 421, "192.0.2.7:8080": 421,
		"localhost.evil.example": 421, "": 421,
	}
	for host, want := range cases {
		if got := statusUnder(handler, host, "/api/v1/locks"); got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
	o := contention()
	o.Hosts = []string{"holdfast.internal"}
	if got := statusUnder(newServer(t, o).Handler(), "Holdfast.Internal:8080",
		"/"); got != http.StatusOK {
		t.Errorf("a name of admin.hosts: %d", got)
	}
}

func TestForeignHostIsRefusedWithUsers(t *testing.T) {
	handler := guarded(t).Handler()
	cases := map[string]int{
		"localhost": 200, "127.0.0.1:8080": 200, accesstest.Host: 200, "SCHEDULER.example.com.:443": 200,
		"192.0.2.7:8080": 200, "[2001:db8::1]": 200,
		"evil.example": 421, "x." + accesstest.Host: 421, accesstest.Host + ".evil.example": 421, "": 421,
		"192.0.2.7.evil.example": 421,
	}
	for host, want := range cases {
		for _, path := range []string{"/login",
			"/static/" + guarded(t).site.Templates.Assets.ByName["holdfast.css"].Hashed} {
			if got := statusUnder(handler, host, path); got != want {
				t.Errorf("Host %q: %s gives %d, want %d", host, path, got, want)
			}
		}
		if got := statusUnder(handler, host, "/healthz"); got != http.StatusOK {
			t.Errorf("Host %q: a probe gets %d", host, got)
		}
	}
}

func statusUnder(handler http.Handler, host, path string) int {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = host
	reply := httptest.NewRecorder()
	handler.ServeHTTP(reply, request)
	return reply.Code
}

func TestPanicIsAnswered(t *testing.T) {
	var logged bytes.Buffer
	o := calm()
	o.Log = zerolog.New(&logged)
	o.Upcoming = func(time.Time, int) []ScheduledFiring { panic("boom") }
	reply := get(t, newServer(t, o).Handler(), "/")
	if reply.Code != http.StatusInternalServerError ||
		!strings.Contains(reply.Body.String(), "The log of this replica has details") {
		t.Errorf("got %d %s, want 500 and the advice to read the log", reply.Code, reply.Body)
	}
	if strings.Contains(reply.Body.String(), "boom") || !strings.Contains(logged.String(), "boom") {
		t.Errorf("the panic belongs into the log alone; log: %s", &logged)
	}
}

func TestStoreOutageIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	o := calm()
	h := o.Store.(*history)
	o.Log = zerolog.New(&logged)
	handler := newServer(t, o).Handler()
	for _, err := range []error{nil, down().Store.(*history).err, down().Store.(*history).err, nil,
		nil} {
		h.err = err
		get(t, handler, "/")
		get(t, handler, "/api/v1/locks")
	}
	var messages []string
	for line := range strings.Lines(logged.String()) {
		var event struct{ Message string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, event.Message)
	}
	if want := []string{"admin store query failed",
		"admin store query succeeded again"}; !slices.Equal(messages, want) {
		t.Errorf("log has %q, want %q", messages, want)
	}
}

// ownScript matches the links to Holdfast's own scripts.
var ownScript = regexp.MustCompile(
	`^(<script src="/static/[a-z]+\.[0-9a-f]{16}\.js" defer>|</(no)?script>|<noscript>)$`)

// TestHostileValuesStayText checks that every page escapes texts that an attacker has written.
func TestHostileValuesStayText(t *testing.T) {
	server := newServer(t, hostile())
	body := get(t, server.Handler(), "/").Body.String()
	for _, tag := range regexp.MustCompile(`<[a-zA-Z/!][^>]*>`).FindAllString(body, -1) {
		name := strings.ToLower(regexp.MustCompile(`^</?!?[a-zA-Z0-9]+`).FindString(tag))
		if strings.HasSuffix(name, "script") && !ownScript.MatchString(tag) ||
			strings.HasSuffix(name, "img") || strings.HasSuffix(name, "style") {
			t.Errorf("page has the element %s", tag)
		}
		if regexp.MustCompile(`(?i)\s(on[a-z]+|style)\s*=`).MatchString(tag) {
			t.Errorf("page has an inline handler or style: %s", tag)
		}
	}
	for _, match := range regexp.MustCompile(`(?:href|src|action|hx-get)="([^"]*)"`).
		FindAllStringSubmatch(body, -1) {
		target, err := url.Parse(html.UnescapeString(match[1]))
		if err != nil || target.Host != "" || target.Scheme != "" ||
			!strings.HasPrefix(match[1], "/") && !strings.HasPrefix(match[1], "#") {
			t.Errorf("page links %q", match[1])
		}
	}
	longer := get(t, newServer(t, hostileTimes(2)).Handler(), "/").Body.String()
	if len(longer) != len(body) {
		t.Errorf("page has %d bytes, and %d with longer texts: they are not cut", len(body),
			len(longer))
	}
	for _, path := range []string{"/nothing/%3Cscript%3E", "/?refresh=%3Cscript%3E",
		"/?%3Cscript%3E=1", "/static/%3Cscript%3E.css"} {
		if reply := get(t, server.Handler(), path); strings.Contains(reply.Body.String(),
			"<script>") || reply.Code < 400 {
			t.Errorf("%s: got %d %s, want an error without a script", path, reply.Code, reply.Body)
		}
	}
	if reply := get(t, server.Handler(), "/api/v1/runs"); strings.Contains(reply.Body.String(),
		"<script") {
		t.Error("JSON holds a tag that a browser might read as HTML")
	}
}

// TestLinksWork follows some links of each kind from the main pages. In a soak it follows those of
// each state of each page.
func TestLinksWork(t *testing.T) {
	t.Parallel()
	type lead struct { // identifies a link within a cluster, because many states share a cluster
		jobs, runs, locks int
		link              string
	}
	followed := make(map[lead]bool)
	wanted := mainPages()
	for _, state := range galleryStates() {
		if !soak.Running() && !slices.Contains(wanted, state.name) {
			continue
		}
		server := newServer(t, state.options)
		handler := server.Handler()
		h := state.options.Store.(*history)
		if state.status >= http.StatusBadRequest || len(h.jobs) > 1000 {
			// Error pages and pages of thousands of jobs have the same kinds of links as others.
			continue
		}
		seen, kinds := make(map[string]bool), make(map[string]int)
		for _, match := range regexp.MustCompile(`href="([^"]*)"`).
			FindAllStringSubmatch(get(t, handler, state.address()).Body.String(), -1) {
			link, _, _ := strings.Cut(html.UnescapeString(match[1]), "#")
			kind := regexp.MustCompile(`^/[a-z]*/?`).FindString(link)
			if link == "" || seen[link] || kinds[kind] == 5 || strings.HasPrefix(link, traceSite) {
				continue
			}
			seen[link] = true
			kinds[kind]++
			to := lead{len(h.jobs), len(h.runs), len(h.locks), link}
			if followed[to] {
				continue
			}
			followed[to] = true
			if reply := get(t, handler, link); reply.Code == http.StatusNotFound ||
				reply.Code == http.StatusBadRequest {
				t.Errorf("%s: link %s gives %d %s", state.name, link, reply.Code, reply.Body)
			}
		}
	}
}

// TestMessagesIsolateTheDirectionOfText checks that text with direction marks is in elements of its
// own, so that it does not change the direction of the text around it.
func TestMessagesIsolateTheDirectionOfText(t *testing.T) {
	handler := newServer(t, hostile()).Handler()
	tag := regexp.MustCompile(`<(/?[a-z0-9]+)[^>]*>[^<]*$`)
	for path, want := range map[string]int{"/": 1, "/runs": 1, param.RunPath(id(2)): 1,
		param.RunPath(id(3)): 1, "/replicas": 1, "/locks": 1} {
		parts := strings.Split(get(t, handler, path).Body.String(), "\u202E")
		if got := len(parts) - 1; got < want {
			t.Errorf("%s: got %d such texts, want at least %d", path, got, want)
		}
		before := ""
		for _, part := range parts[:len(parts)-1] {
			before += part
			if m := tag.FindStringSubmatch(before); m == nil || m[1] != "bdi" {
				t.Errorf("%s: got text in the element of %q, want it in a bdi", path,
					before[max(0, len(before)-100):])
			}
		}
	}
}
