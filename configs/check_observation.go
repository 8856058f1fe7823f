package configs

import (
	"net/url"
	"strings"
)

// TraceIDMark is replaced in Tracing.Link by a trace's id.
const TraceIDMark = "{trace_id}"

func (c *checker) checkTracing() {
	const path = "tracing"
	t := c.config.Tracing
	if t == nil || c.near(path).value.kind != kindMapping {
		return
	}
	c.checkEndpoint(t, keyPath(path, "endpoint"))
	if at := keyPath(path, "service_name"); c.sound(at) && !isName(t.ServiceName) {
		c.fail(at, "found %s, expected %s", c.foundAt(at), nameWords)
	}
	c.checkHeaders(t.Headers, keyPath(path, "headers"))
	c.checkLink(t.Link, keyPath(path, "link"))
}

// checkEndpoint adds the default path of collectors to an endpoint without a path.
func (c *checker) checkEndpoint(t *Tracing, path string) {
	if !c.sound(path) {
		return
	}
	parsed, err := url.Parse(t.Endpoint)
	switch {
	case err == nil && (parsed.User != nil || parsed.RawQuery != ""): // the exporter drops a query
		c.fail(path, "found a user or a query in the URL (it is not shown), expected an http:// "+
			"or https:// URL without them: set what the collector needs in tracing.headers")
	case err != nil || !isWeb(parsed) || parsed.Fragment != "":
		c.fail(path, "found %s, expected an http:// or https:// URL such as "+
			"http://127.0.0.1:4318/v1/traces", c.foundURL(path))
	case parsed.Path == "" || parsed.Path == "/":
		t.Endpoint = parsed.JoinPath("v1", "traces").String()
	}
}

func (c *checker) checkLink(link, path string) {
	if link == "" || !c.sound(path) {
		return
	}
	parsed, err := url.Parse(strings.ReplaceAll(link, TraceIDMark, "0"))
	if err != nil || !isWeb(parsed) || !strings.Contains(link, TraceIDMark) ||
		strings.ContainsAny(strings.ReplaceAll(link, TraceIDMark, ""), "{}") {
		c.fail(path, "found %s, expected an http:// or https:// URL with %s in it",
			c.foundURL(path), TraceIDMark)
	}
}

func isWeb(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
