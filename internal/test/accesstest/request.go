// Package accesstest sends requests as users, API clients and proxies do, and makes their proofs of
// identity.
package accesstest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Host is the name of the page's host.
const Host = "scheduler.example.com"

// Ask sends a request from another machine to the host of the page.
func Ask(handler http.Handler, method, target string,
	change ...func(r *http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, nil)
	request.Host = Host
	for _, c := range change {
		c(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, Passing(request))
	return recorder
}

// WithHeader adds a header.
func WithHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// WithCookie adds a cookie.
func WithCookie(c *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(c) }
}

// From sets the client address of the connection.
func From(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// WithForm makes the request send a form.
func WithForm(values url.Values) func(*http.Request) {
	return func(r *http.Request) {
		body := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(values.Encode()))
		r.Body, r.ContentLength = body.Body, body.ContentLength
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
}

// SignIn posts the form as a browser does over TLS, unless a change sets the header Origin.
func SignIn(handler http.Handler, name, password string,
	change ...func(r *http.Request)) *httptest.ResponseRecorder {
	form := url.Values{"user": {name}, "password": {password}, "next": {"/?refresh=off"}}
	origin := func(r *http.Request) {
		if r.Header["Origin"] == nil {
			r.Header.Set("Origin", "https://"+r.Host)
		}
	}
	return Ask(handler, http.MethodPost, "/login",
		slices.Concat([]func(*http.Request){WithForm(form)}, change,
			[]func(*http.Request){origin})...)
}

// CookieOf signs in and returns the cookie of the sign-in.
func CookieOf(t *testing.T, handler http.Handler, name, password string) *http.Cookie {
	t.Helper()
	reply := SignIn(handler, name, password)
	cookies := reply.Result().Cookies()
	if reply.Code != http.StatusSeeOther || len(cookies) != 2 {
		t.Fatalf("sign-in of %s: %d with %d cookies: %s", name, reply.Code, len(cookies),
			reply.Body)
	}
	return cookies[0]
}

// Passing ends a request for an event stream at once, because a recorder never disconnects.
func Passing(r *http.Request) *http.Request {
	if r.URL.Path != "/api/v1/events" {
		return r
	}
	ctx, leave := context.WithCancel(r.Context())
	leave()
	return r.WithContext(ctx)
}

// Fetch gets an address on a new connection.
func Fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
