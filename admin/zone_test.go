package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// sendZone sends the form of the account menu for the time zone.
func sendZone(handler http.Handler, zone, next string) *httptest.ResponseRecorder {
	return accesstest.Ask(handler, http.MethodPost, "/zone", fromItsPage,
		accesstest.WithForm(url.Values{"zone": {zone}, "next": {next}}))
}

func TestZone(t *testing.T) {
	handler := newServer(t, calm()).Handler()
	reply := sendZone(handler, "utc", "/runs?job=a")
	cookies := reply.Result().Cookies()
	if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther ||
		got != "/runs?job=a" || len(cookies) != 1 || cookies[0].Value != "utc" {
		t.Fatalf("got %d to %q with %v, want 303 to /runs?job=a with the zone", reply.Code, got,
			cookies)
	}
	page := accesstest.Ask(handler, http.MethodGet, "/runs", fromItsPage,
		accesstest.WithCookie(cookies[0])).Body.String()
	for _, want := range []string{`<html lang="en" data-times-in="utc">`,
		`value="utc" aria-pressed="true"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if cookies = sendZone(handler, "", "/").Result().Cookies(); len(cookies) != 1 ||
		cookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v, want the zone deleted", cookies)
	}
	if reply := sendZone(handler, "Mars", "/"); reply.Code != http.StatusBadRequest {
		t.Errorf("an unknown zone gives %d, want 400", reply.Code)
	}
	if got := sendZone(handler, "utc", "https://evil.example/").Header().Get(
		"Location"); got != "/" {
		t.Errorf("the address of another site leads to %q, want /", got)
	}
}

// TestViewerChoosesUTC chooses UTC in a browser in Tokyo, and returns to the zone of the browser.
func TestViewerChoosesUTC(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs?from=2026-03-13T12:00")
	choose := func(zone, clock, field string) {
		t.Helper()
		if err := chromedp.Do(window, chromedp.Click(".menu > summary"),
			chromedp.Click(`button[name="zone"][value="`+zone+`"]`)); err != nil {
			t.Fatal(err)
		}
		until(t, window, `document.querySelector(".fresh time").textContent == "`+clock+`"`)
		if got := evaluate[string](t, window,
			`document.getElementById("from").value`); got != field {
			t.Errorf("the field has %s, want %s", got, field)
		}
	}
	choose("utc", "03:12:15", "2026-03-13T12:00")
	choose("", "12:12:15", "2026-03-13T21:00")
}
