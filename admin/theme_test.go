package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// fromItsPage sets the headers of a request that a page of a server without users sends.
func fromItsPage(r *http.Request) {
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
}

// sendTheme sends the theme form of the account menu.
func sendTheme(handler http.Handler, theme, next string,
	change ...func(*http.Request)) *httptest.ResponseRecorder {
	form := accesstest.WithForm(url.Values{"theme": {theme}, "next": {next}})
	return accesstest.Ask(handler, http.MethodPost, "/theme",
		append([]func(*http.Request){fromItsPage, form}, change...)...)
}

// TestTheme chooses a theme, follows the redirect with the cookie, and returns to the theme of the
// system.
func TestTheme(t *testing.T) {
	handler := newServer(t, calm()).Handler()
	reply := sendTheme(handler, "dark", "/runs?job=a")
	if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther ||
		got != "/runs?job=a" {
		t.Fatalf("got %d to %q, want 303 to /runs?job=a", reply.Code, got)
	}
	cookies := reply.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Value != "dark" || !cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies %v, want one with the theme", cookies)
	}
	cookie := accesstest.WithCookie(cookies[0])
	shown := func(change ...func(*http.Request)) string {
		recorder := accesstest.Ask(handler, http.MethodGet, "/runs",
			append([]func(*http.Request){fromItsPage}, change...)...)
		if got := recorder.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control is %q, want no-store", got)
		}
		return recorder.Body.String()
	}
	for _, text := range []string{`<html lang="en" data-theme="dark">`,
		`<meta name="color-scheme" content="dark">`, `value="dark" aria-pressed="true"`} {
		if !strings.Contains(shown(cookie), text) {
			t.Errorf("the page lacks %s", text)
		}
	}
	if !strings.Contains(shown(), `<html lang="en">`) {
		t.Error("a page without a cookie has a theme")
	}
	reply = sendTheme(handler, "", "/")
	if cookies = reply.Result().Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v, want the theme deleted", cookies)
	}
}

// TestThemeIsRefused sends unknown themes, redirect addresses of other sites and forms from other
// sites.
func TestThemeIsRefused(t *testing.T) {
	handler := newServer(t, calm()).Handler()
	reply := sendTheme(handler, "pink", "/")
	if reply.Code != http.StatusBadRequest || len(reply.Result().Cookies()) > 0 {
		t.Errorf("an unknown theme gives %d and %v", reply.Code, reply.Result().Cookies())
	}
	for _, next := range []string{"https://evil.example/", "//evil.example", "/logout"} {
		reply := sendTheme(handler, "dark", next)
		if got := reply.Header().Get("Location"); got != "/" {
			t.Errorf("%s leads to %q, want /", next, got)
		}
	}
	reply = sendTheme(handler, "dark", "/", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if reply.Code != http.StatusForbidden || len(reply.Result().Cookies()) > 0 {
		t.Errorf("a form of another site gives %d and %v", reply.Code, reply.Result().Cookies())
	}
}
