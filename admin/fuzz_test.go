package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// mark ends each input. A test finds unescaped input by it.
const mark = `<zq"'&zq>`

// fuzzed is a request to any route.
type fuzzed struct {
	route      int // index in the table of routes, modulo its length
	path       string
	name, text string // of a query parameter or a field of a form
	query      string // raw text after the parameter
	body       string
	marked     bool // path, text and body contain the mark
}

// request returns the request as the server would parse it from the network.
func (f fuzzed) request(s *Server, routes []route) (route, *http.Request) {
	r := routes[f.route%len(routes)]
	if f.marked {
		f.path, f.text, f.body = f.path+mark, f.text+mark,
			strings.ReplaceAll(f.body, "zq", strings.ReplaceAll(mark, `"`, `\"`))
	}
	raw := addressOf(s, r.path)
	if f.path != "" {
		raw = regexp.MustCompile(`\{\w+\}`).
			ReplaceAllLiteralString(strings.TrimSuffix(r.path, "{$}"), url.PathEscape(f.path))
	}
	plain, err := url.PathUnescape(raw)
	if err != nil {
		plain = raw
	}
	form := r.method == http.MethodPost && !strings.HasPrefix(r.path, "/api/")
	query, pair := f.query, url.QueryEscape(f.name)+"="+url.QueryEscape(f.text)
	switch {
	case f.name == "":
	case form:
		query, f.body = "", "key=zq&"+pair
	default:
		query = strings.TrimPrefix(query+"&"+pair, "&")
	}
	request := httptest.NewRequest(r.method, "/", strings.NewReader(f.body))
	request.URL = &url.URL{Path: plain, RawPath: raw, RawQuery: query}
	request.RequestURI = request.URL.RequestURI()
	request.Host = "localhost"
	request.Header.Set(access.ActionHeader, "1")
	if form {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r, accesstest.Passing(request)
}

// FuzzRequests sends random path values, parameters and bodies to every route. Each response must
// be quick, must not be an internal error and must not contain the input as markup. A refusal must
// name what it refuses.
func FuzzRequests(f *testing.F) {
	o, c := withControl(contention())
	o.Changes = newChanges()
	server, err := New(o)
	if err != nil {
		f.Fatal(err)
	}
	handler, routes := server.Handler(), server.routes()
	for i, r := range routes {
		f.Add(i, "", "", "", "", bodyOf(r.path), false)
		f.Add(i, "a", "refresh", "off", "limit=5&state=failed,lost&before=x",
			`{"reason": "zq", "zq": 1}`, true)
	}
	for i, hostile := range []string{"\x00", "\xff", "../..", strings.Repeat("x", 1001), "%",
		"\u202e", "9999999999999999999", "0001-01-01T00:00:00Z", "a,b", "path:a/b", "null"} {
		for _, name := range []string{"limit", "job", "state", "from", "after", "before",
			"resource", "at", "topics", "since", "next", "refresh", "text", "action"} {
			f.Add(i*7+len(name), hostile, name, hostile, "a=b;c=%zz",
				`{"params": {"a": `+fmt.Sprintf("%q",
					hostile)+`}, "token": 1e99, "job": [], "version": -1}`, i%2 == 0)
		}
	}
	for i, r := range routes {
		for _, name := range []string{"reason", "params", "job", "key", "even_paused",
			"end_transaction", "version", "resource", "holder", "user", "password"} {
			if r.method == http.MethodPost && !strings.HasPrefix(r.path, "/api/") {
				f.Add(i, "", name, "{name: a, schedule: '* * * * *', handler: sql}", "", "",
					i%2 == 0)
				f.Add(i, "", name, `{"zq": "zq"}`, "", "", i%2 == 1)
			}
		}
	}
	f.Fuzz(func(t *testing.T, at int, path, name, text, query, body string, marked bool) {
		if at < 0 {
			t.Skip("no such route")
		}
		sent := fuzzed{at, path, name, text, query, body, marked}
		var r route
		var request *http.Request
		var reply *httptest.ResponseRecorder
		var took time.Duration
		const limit = 3 * time.Second
		for try := 0; try == 0 || try < 3 && took > limit; try++ { // a busy machine may pause
			*c = *newControl(c.history)
			c.history.filters, c.history.jobFilters = nil, nil
			r, request = sent.request(server, routes)
			reply = httptest.NewRecorder()
			start := time.Now()
			handler.ServeHTTP(reply, request)
			took = time.Since(start)
		}
		what := fmt.Sprintf("%s %s with body %.200q", request.Method, request.URL.RequestURI(),
			body)
		if took > limit {
			t.Errorf("%s: answered after %s, and no faster in other tries", what, took)
		}
		if reply.Code >= 500 || reply.Code < 200 {
			t.Errorf("%s: got %d %s, want a status from 200 to 499", what, reply.Code, reply.Body)
		}
		checkFuzzed(t, what, request, reply, r)
	})
}

func checkFuzzed(t *testing.T, what string, request *http.Request, reply *httptest.ResponseRecorder,
	r route) {
	t.Helper()
	body := reply.Body.String()
	for header, values := range reply.Header() {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n<\x00") && header != "Link" ||
			strings.Contains(strings.Join(values, ""), mark) {
			t.Errorf("%s: header %s is %q", what, header, values)
		}
	}
	if strings.Contains(body, "<zq") {
		t.Errorf("%s: what was sent is markup:\n%s", what, body)
	}
	kind := reply.Header().Get("Content-Type")
	switch {
	case reply.Code == http.StatusMovedPermanently || reply.Code == http.StatusTemporaryRedirect:
		// The path was not in its clean form.
	case strings.HasPrefix(request.URL.Path, "/api/") && kind != "text/event-stream" &&
		(kind != "application/json" || !json.Valid(reply.Body.Bytes())):
		t.Errorf("%s: %d, no JSON but %s: %q", what, reply.Code, kind, body)
	case strings.HasPrefix(kind, "text/html") && reply.Code != http.StatusSeeOther &&
		!strings.HasSuffix(body, "</html>\n"):
		t.Errorf("%s: the page does not end", what)
	}
	if reply.Code == http.StatusBadRequest &&
		!slices.ContainsFunc(sentNames(request, r), func(name string) bool {
			return strings.Contains(body, name)
		}) {
		t.Errorf("%s: refused without a name: %s", what, body)
	}
}

// sentNames returns the names that a refusal may mention.
func sentNames(request *http.Request, r route) []string {
	names := []string{"query", "body", "form", "id is", "session is", "action", "Idempotency-Key",
		"job is", "job: ", "group: ", "reason: ", "params: ", "name: "}
	sent, _ := url.ParseQuery(request.URL.RawQuery) // names that cannot be parsed are not mentioned
	for name := range request.PostForm {
		names = append(names, htmlInner(words.Cut(name, 100)))
	}
	for name := range sent {
		names = append(names, jsonInner(words.Cut(name, 100)), htmlInner(words.Cut(name, 100)))
	}
	for _, p := range describedOperations()[r.method+" "+r.path].query {
		names = append(names, p.name)
	}
	return append(names, propertyNames(describedOperations()[r.method+" "+r.path].body)...)
}

// jsonInner and htmlInner return a name as it appears between quotes in a response.
func jsonInner(name string) string {
	text, err := json.Marshal(fmt.Sprintf("%q", name))
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(text[1 : len(text)-1])
}

func htmlInner(name string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").
		Replace(fmt.Sprintf("%q", name))
}
