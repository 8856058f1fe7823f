package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The values of follow_redirects.
const (
	redirectsSameHost = "same_host" // the default
	redirectsAny      = "any"
	redirectsNone     = "none"
)

// withRedirects returns a client that follows redirects as the params say.
func (h httpHandler) withRedirects(p HTTPParams) *http.Client {
	client := *h.client
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		next.Header.Del("Referer") // the query of the former URL may be secret
		first, last := via[0], via[len(via)-1]
		status := next.Response.StatusCode
		elsewhere := func(r *http.Request) bool { return !sameHost(first.URL, r.URL) }
		switch {
		case p.FollowRedirects == redirectsNone,
			slices.Contains(p.ExpectStatus, status):
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case next.Method != last.Method && status != http.StatusSeeOther:
			// net/http does so after 301 and 302. The new location would not get what was sent.
			return fmt.Errorf("redirect with status %d not followed: it would change %s to %s",
				status, last.Method, next.Method)
		case !elsewhere(next) && !slices.ContainsFunc(via, elsewhere):
			return nil
		case p.FollowRedirects != redirectsAny && strings.EqualFold(first.URL.Host, next.URL.Host):
			return fmt.Errorf("redirect from %s to %s not followed: expected https, or "+
				"follow_redirects: any", first.URL.Scheme, next.URL.Scheme)
		case p.FollowRedirects != redirectsAny:
			return fmt.Errorf("redirect to host %q not followed: expected the host of the URL, "+
				"or follow_redirects: any", next.URL.Host)
		case next.ContentLength != 0:
			return fmt.Errorf("redirect to host %q not followed: it would get the body",
				next.URL.Host)
		}
		// Another host gets neither the job's headers nor the fencing token. URLs to which it
		// redirects do not get them either, even on the first host.
		next.Header, next.Host = http.Header{"User-Agent": {"holdfast"}}, ""
		return nil
	}
	return &client
}

// sameHost reports whether a redirect stays on the host and port, and does not leave TLS.
func sameHost(from, to *url.URL) bool {
	return strings.EqualFold(from.Host, to.Host) &&
		(from.Scheme == to.Scheme || to.Scheme == "https")
}
