package remote

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ParseServer returns the address of a server: an https or http URL with the path of the page, if
// there is one, and without user, query and fragment.
func ParseServer(text string) (*url.URL, error) {
	const expected = "expected an address such as https://scheduler.example"
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		// the error of url.Parse quotes the text, which may have a password
		return nil, fmt.Errorf("found no URL, %s", expected)
	case parsed.User != nil:
		return nil, fmt.Errorf("found a user in the URL, %s, and a token", expected)
	case parsed.Scheme != "https" && parsed.Scheme != "http", parsed.Host == "",
		parsed.Opaque != "":
		if strings.ContainsAny(text, "@?#") {
			return nil, fmt.Errorf("found no https or http URL, %s", expected) // as above
		}
		return nil, fmt.Errorf("found %q, %s", text, expected)
	case parsed.RawQuery != "" || parsed.Fragment != "" || parsed.ForceQuery:
		return nil, fmt.Errorf("found a query or a fragment in the URL, %s", expected)
	}
	parsed.Path, parsed.RawPath = strings.TrimRight(parsed.Path, "/"), ""
	return parsed, nil
}

// isThisMachine reports whether a host is a loopback address or localhost.
func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
