package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/html"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const testPrefix = "/ops/holdfast"

// TestLinksStayUnderThePrefix renders every state of every page under a prefix. No attribute that
// is an address leads elsewhere.
func TestLinksStayUnderThePrefix(t *testing.T) {
	t.Parallel()
	links := 0
	for i, state := range galleryStates() {
		if len(state.options.Store.(*history).jobs) > 1000 || i%soak.Pick(3, 1) != 0 {
			continue
		}
		o := state.options
		o.Prefix = testPrefix + "/"
		server := newServer(t, o)
		if state.before != nil {
			state.before(t, server)
		}
		reply := get(t, state.handler(server), testPrefix+state.address())
		links += checkLinks(t, state.name, reply)
	}
	if least := soak.Pick(1500, 5000); links < least {
		t.Errorf("got %d links, want at least %d", links, least)
	}
}

// checkLinks returns the number of addresses in a page.
func checkLinks(t *testing.T, name string, reply *httptest.ResponseRecorder) (links int) {
	t.Helper()
	page, err := html.Parse(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"value", "title", "aria-label", "placeholder", "d"}
	for node := range page.Descendants() {
		for _, a := range node.Attr {
			if slices.Contains(texts, a.Key) || !strings.HasPrefix(a.Val, "/") {
				continue
			}
			links++
			if !strings.HasPrefix(a.Val, testPrefix+"/") {
				t.Errorf("%s: <%s %s=%q> leads out of the prefix", name, node.Data, a.Key, a.Val)
			}
		}
	}
	return links
}

func TestHeadersHaveThePrefix(t *testing.T) {
	t.Parallel()
	o := guardedOptions(t)
	o.Prefix = testPrefix
	handler := newServer(t, o).Handler()
	ask := func(path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Host = accesstest.Host
		for _, c := range change {
			c(request)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder
	}
	bearer := func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+accesstest.DeployToken)
	}
	for _, c := range []struct{ path, header, want string }{
		{testPrefix + "/jobs?state=failed", "Location",
			testPrefix + "/login?next=%2Fjobs%3Fstate%3Dfailed"},
		{"/jobs", "Location", testPrefix + "/login?next=%2Fjobs"}, // the proxy removed the prefix
		{testPrefix + "?refresh=off", "Location", testPrefix + "/?refresh=off"},
		{testPrefix + "/jobs/../runs", "Location", testPrefix + "/runs"},
	} {
		if got := ask(c.path).Header().Get(c.header); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.path, c.header, got, c.want)
		}
	}
	reply := ask(testPrefix+"/api/v1/runs?limit=1", bearer)
	if got := reply.Header().Get("Link"); !strings.HasPrefix(got, "<"+testPrefix+"/api/v1/runs?") {
		t.Errorf("Link is %q", got)
	}
	reply = ask(testPrefix+"/api/v1/openapi.json", bearer)
	description := answered[struct{ Servers []struct{ URL string } }](t, reply, http.StatusOK)
	if len(description.Servers) != 1 || description.Servers[0].URL != testPrefix {
		t.Errorf("servers of the API are %+v", description.Servers)
	}
	if reply := ask("/other/jobs", bearer); reply.Code != http.StatusNotFound {
		t.Errorf("another path: %d", reply.Code)
	}
}

// TestCookiesHaveThePrefix signs in and shows a page with the cookie.
func TestCookiesHaveThePrefix(t *testing.T) {
	t.Parallel()
	o := guardedOptions(t)
	o.Prefix = testPrefix
	handler := newServer(t, o).Handler()
	cookies := accesstest.SignIn(handler, "anna", "correct horse").Result().Cookies()
	if len(cookies) == 0 {
		t.Fatal("sign-in: got no cookie")
	}
	request := httptest.NewRequest(http.MethodGet, testPrefix+"/jobs", nil)
	request.Host = accesstest.Host
	for _, cookie := range cookies {
		if cookie.Path != testPrefix+"/" || !strings.HasPrefix(cookie.Name, "__Secure-holdfast") ||
			!cookie.Secure {
			t.Errorf("cookie: %s", cookie)
		}
		request.AddCookie(cookie)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		t.Errorf("with the cookie: %d", recorder.Code)
	}
}

// session is the authentication of a program: a cookie with the name of the user.
func session(r *http.Request) (Visitor, error) {
	cookie, err := r.Cookie("session")
	switch {
	case errors.Is(err, http.ErrNoCookie):
		return Visitor{}, nil
	case err != nil:
		return Visitor{}, err
	case cookie.Value == "broken":
		return Visitor{}, errors.New("session store: connection refused")
	case cookie.Value == "guest":
		return Visitor{Name: "guest"}, nil
	}
	return Visitor{Name: cookie.Value, Role: Operator}, nil
}

// newMount is a page of a program with its own authentication.
func newMount(t *testing.T, base Options, change ...Option) *Mount {
	t.Helper()
	m, err := NewMount(base, append([]Option{At(testPrefix + "/"), Authenticate(session),
		SignInAt("/sign-in?theme=dark")}, change...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.End(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// askAs asks a handler under a foreign host name as a user of the program.
func askAs(handler http.Handler, method, path, user string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader("{}"))
	request.Host = "shop.example"
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if user != "" {
		request.AddCookie(&http.Cookie{Name: "session", Value: user})
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func TestMountBeforeItsServer(t *testing.T) {
	t.Parallel()
	m := newMount(t, guardedOptions(t))
	for path, want := range map[string]string{"/": "The scheduler of this service is starting",
		"/api/v1/status": `{"error": "The scheduler of this service is starting`} {
		reply := askAs(m, http.MethodGet, testPrefix+path, "anna")
		if reply.Code != http.StatusServiceUnavailable || reply.Header().Get("Retry-After") == "" ||
			!strings.HasPrefix(reply.Body.String(), want) {
			t.Errorf("%s: got %d %s, want 503 with Retry-After and %q", path, reply.Code,
				reply.Body, want)
		}
	}
	if err := m.Begin(guardedOptions(t)); err != nil {
		t.Fatal(err)
	}
	if reply := askAs(m, http.MethodGet, testPrefix+"/", "anna"); reply.Code != http.StatusOK {
		t.Errorf("with a server: %d", reply.Code)
	}
	if err := m.End(); err != nil {
		t.Fatal(err)
	}
	if reply := askAs(m, http.MethodGet, testPrefix+"/",
		"anna"); reply.Code != http.StatusServiceUnavailable {
		t.Errorf("after the end: %d", reply.Code)
	}
}

func TestProgramAuthenticates(t *testing.T) {
	t.Parallel()
	o, control := withControl(guardedOptions(t))
	m := newMount(t, o)
	if err := m.Begin(o); err != nil {
		t.Fatal(err)
	}
	const pause = testPrefix + "/api/v1/jobs/rollup-sales/pause"
	for _, c := range []struct {
		method, path, user string
		status             int
		text, location     string
	}{
		{"GET", "/jobs?state=failed", "", http.StatusSeeOther, "",
			"/sign-in?next=%2Fops%2Fholdfast%2Fjobs%3Fstate%3Dfailed&theme=dark"},
		{"GET", "/api/v1/jobs", "", http.StatusUnauthorized, "Sign in to the service first.", ""},
		{"POST", "/jobs/rollup-sales/pause", "", http.StatusUnauthorized, "Sign in", ""},
		{"GET", "/jobs", "guest", http.StatusForbidden, "Your account may not use this page.", ""},
		{"GET", "/jobs", "broken", http.StatusServiceUnavailable, "could not check", ""},
		{"GET", "/jobs", "anna", http.StatusOK, "Signed in as <bdi>anna</bdi>, operator", ""},
		{"GET", "/login", "anna", http.StatusNotFound, "", ""},
		{"GET", "/healthz", "", http.StatusOK, "ok", ""},
	} {
		reply := askAs(m, c.method, testPrefix+c.path, c.user)
		if reply.Code != c.status || !strings.Contains(reply.Body.String(), c.text) ||
			reply.Header().Get("Location") != c.location {
			t.Errorf("%s %s as %q: %d, location %q, want %d and %q", c.method, c.path, c.user,
				reply.Code, reply.Header().Get("Location"), c.status, c.text)
		}
	}
	if strings.Contains(askAs(m, http.MethodGet, testPrefix+"/jobs", "anna").Body.String(),
		"Sign out") {
		t.Error("the page has a sign-out")
	}
	if reply := askAs(m, http.MethodPost, pause, "anna"); reply.Code != http.StatusOK {
		t.Fatalf("pause: %d %s", reply.Code, reply.Body)
	}
	if last := control.audit[len(control.audit)-1]; last.Actor != "anna" {
		t.Errorf("actor is %q, want anna", last.Actor)
	}
}

// TestConfiguredProofsDoNotCountBesideAProgram checks that only the option Authenticate identifies
// users if it is set.
func TestConfiguredProofsDoNotCountBesideAProgram(t *testing.T) {
	t.Parallel()
	m := newMount(t, guardedOptions(t))
	if err := m.Begin(guardedOptions(t)); err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, testPrefix+"/api/v1/jobs", nil)
	request.RemoteAddr = "10.1.2.3:4567" // the proxy
	request.Header.Set("Authorization", "Bearer "+accesstest.DeployToken)
	request.Header.Set("X-Forwarded-User", "olga@example.com")
	recorder := httptest.NewRecorder()
	m.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusUnauthorized {
		t.Errorf("with a token and as a proxy: %d", recorder.Code)
	}
}

func TestAPIAlone(t *testing.T) {
	t.Parallel()
	m := newMount(t, guardedOptions(t), APIOnly())
	if err := m.Begin(guardedOptions(t)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/api/v1/jobs": http.StatusOK, "/": http.StatusNotFound,
		"/jobs": http.StatusNotFound, "/metrics": http.StatusNotFound} {
		if reply := askAs(m, http.MethodGet, testPrefix+path, "anna"); reply.Code != want {
			t.Errorf("%s: %d, want %d", path, reply.Code, want)
		}
	}
}

func TestMountRefusesWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	open := Options{Log: zerolog.Nop()}
	withUsers := guardedOptions(t)
	withOIDC := withUsers
	withOIDC.CookieKeys = [][]byte{[]byte(strings.Repeat("k", 32))}
	withOIDC.OIDC = &OIDC{Issuer: "https://id.example", ClientID: "c", Role: Viewer,
		Domains: []string{"*"}, RedirectURL: "https://shop.example/login/oidc/callback"}
	withOIDC.Hosts = append(slices.Clone(withOIDC.Hosts), "shop.example")
	for _, c := range []struct {
		name   string
		base   Options
		change []Option
		want   string
	}{
		{"without users", open, nil, "has no users: use Authenticate, or configure users"},
		{"a prefix without a slash", withUsers, []Option{At("holdfast")},
			`prefix is "holdfast", expected a path such as /holdfast/`},
		{"a prefix with an escape", withUsers, []Option{At(`/a"b/`)}, `prefix is "/a\"b/"`},
		{"a sign-in without Authenticate", withUsers, []Option{SignInAt("/sign-in")},
			`the sign-in URL "/sign-in" needs Authenticate`},
		{"a redirect beside the prefix", withOIDC, []Option{At("/ops")},
			"expected the path /ops/login/oidc/callback"},
	} {
		_, err := NewMount(c.base, c.change...)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestMountInABrowser signs in at a program, looks at its page of Holdfast, and pauses a job.
func TestMountInABrowser(t *testing.T) {
	t.Parallel()
	o, control := withControl(contention())
	o.Changes = newChanges()
	m := newMount(t, o)
	if err := m.Begin(o); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	streams := make(chan struct{}, 100)
	mux.HandleFunc(testPrefix+"/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == testPrefix+"/api/v1/events" {
			streams <- struct{}{}
		}
		m.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "anna", Path: "/", HttpOnly: true,
			SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, r.FormValue("next"), http.StatusSeeOther)
	})
	window := tab(t)
	address := siteIn(t, window, mux)
	browsertest.Visit(t, window, address+testPrefix+"/jobs")
	browsertest.Until(t, window, `location.pathname == "`+testPrefix+`/jobs" &&
		document.querySelector(".menu bdi")?.textContent == "anna"`)
	if !browsertest.Evaluate[bool](t, window,
		`[...document.styleSheets].some((s) => s.cssRules.length > 50)`) {
		t.Error("the page has no style")
	}
	click := func(selector string) {
		t.Helper()
		browsertest.Evaluate[bool](t, window,
			`(document.querySelector("`+selector+`").click(), true)`)
	}
	click("button[name='theme'][value='dark']")
	browsertest.Until(t, window, `document.documentElement.dataset.theme == "dark" &&
		location.pathname == "`+testPrefix+`/jobs"`)

	select {
	case <-streams:
	case <-time.After(time.Minute):
		t.Fatal("got no request for an event stream")
	}
	browsertest.Visit(t, window, address+testPrefix+"/jobs/rollup-sales/pause")
	click("main form[method='post'] button[type='submit']")
	browsertest.Until(t, window, `location.pathname == "`+testPrefix+`/jobs/rollup-sales" &&
		document.querySelector(".notice") != null`)
	control.mu.Lock()
	defer control.mu.Unlock()
	if len(control.pauses) != 1 || control.pauses[0].By != "anna" {
		t.Errorf("pauses are %+v", control.pauses)
	}
}
