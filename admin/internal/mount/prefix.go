package mount

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Prefix is the path under which browsers reach the pages, such as /holdfast. It has no slash at
// its end. "" is the root.
type Prefix string

// Parse returns the prefix of a path such as /holdfast/ or /holdfast. It accepts only characters
// that need no escape in a URL, in HTML and in a cookie.
func Parse(text string) (Prefix, error) {
	trimmed := strings.TrimSuffix(text, "/")
	if trimmed == "" {
		return "", nil
	}
	if trimmed[0] != '/' || path.Clean(trimmed) != trimmed ||
		strings.ContainsFunc(trimmed, needsEscape) {
		return "", fmt.Errorf("prefix is %q, expected a path such as /holdfast/", text)
	}
	return Prefix(trimmed), nil
}

func needsEscape(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
		!strings.ContainsRune("/-._~", c)
}

// Path returns the path of the pages' root, which is that of their cookies.
func (p Prefix) Path() string { return string(p) + "/" }

// Handler serves next under the prefix. It also accepts paths without the prefix, because a proxy
// or another handler may have removed it.
func (p Prefix) Handler(next http.Handler) http.Handler {
	if p == "" {
		return next
	}
	stripped := http.StripPrefix(string(p), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answerWriter{ResponseWriter: w, prefix: p}
		r = r.WithContext(context.WithValue(r.Context(), answerKey{}, answer))
		switch {
		case r.URL.Path == string(p):
			root := url.URL{Path: "/", RawQuery: r.URL.RawQuery}
			http.Redirect(answer, r, root.String(), http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, p.Path()):
			stripped.ServeHTTP(answer, r)
		default:
			next.ServeHTTP(answer, r)
		}
	})
}

// Links returns a page with the prefix in its links.
//
// It relies on html/template: a quote in a value of a template is always escaped, so an attribute
// with a quote is one that a template has.
func (p Prefix) Links(page []byte) []byte {
	if p == "" {
		return page
	}
	for _, attribute := range []string{"href", "src", "action", "formaction", "hx-get",
		"data-events"} {
		begin := " " + attribute + `="`
		page = bytes.ReplaceAll(page, []byte(begin+"/"), []byte(begin+p.Path()))
	}
	return page
}

// answerWriter adds the prefix to the headers of an answer.
type answerWriter struct {
	http.ResponseWriter
	prefix    Prefix
	elsewhere bool // Location is the path of a page of another handler
	begun     bool
}

type answerKey struct{}

// LeaveLocation keeps the prefix out of the header Location of the answer, which is the path of a
// page of another handler.
func LeaveLocation(r *http.Request) {
	if answer, ok := r.Context().Value(answerKey{}).(*answerWriter); ok {
		answer.elsewhere = true
	}
}

// Unwrap returns the writer for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader adds the prefix and sends the header.
func (w *answerWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *answerWriter) Write(body []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(body)
}

func (w *answerWriter) begin(status int) {
	if w.begun || status < http.StatusOK {
		return
	}
	w.begun = true
	h := w.Header()
	if location := h.Get("Location"); isPath(location) && !w.elsewhere {
		h.Set("Location", string(w.prefix)+location)
	}
	if link := h.Get("Link"); link != "" { // "<" is escaped in the addresses of links
		h.Set("Link", strings.ReplaceAll(link, "</", "<"+w.prefix.Path()))
	}
}

// isPath reports whether an address is on the same server. "//host" is on another one.
func isPath(address string) bool {
	return strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
}
