package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
)

type object = map[string]any

func newRun(job string) *jobs.Run {
	run := jobs.NewRun(job, time.Date(2026, 5, 1, 9, 0, 0, 0, time.FixedZone("", 7200)),
		zerolog.Nop())
	run.Token = 42
	return run
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func wantOutput(t *testing.T, run *jobs.Run, want string) {
	t.Helper()
	if got := run.OutputText(); got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func wantResult(t *testing.T, run *jobs.Run, want string) {
	t.Helper()
	if got := string(run.Result()); got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

// TestFailedRequestsHaveResults checks that a failed request has its status as the result, and a
// failed command its exit code. A program that did not start and a server that was not reached have
// no result.
func TestFailedRequestsHaveResults(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})
	for _, c := range []struct {
		handler string
		params  object
		want    string
	}{
		{"http", object{"url": url}, `{"status":418}`},
		{"http", object{"url": "http://127.0.0.1:1"}, ""},
		{"command", object{"command": shell("exit 3")}, `{"exit_code":3}`},
		{"command", object{"command": shell("kill -9 $$")}, `{"exit_code":-1}`},
		{"command", object{"command": []string{"/no/such/program"}}, ""},
	} {
		run := newRun("j")
		if err := mustBind(t, c.handler, c.params)(t.Context(), run); err == nil {
			t.Errorf("%s %v succeeded", c.handler, c.params)
		}
		wantResult(t, run, c.want)
	}
}

func TestHTTPRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		fmt.Fprint(w, "thanks\x00")
	})
	run := newRun("nightly réport")
	handle := mustBind(t, "http", object{"url": url + "/in?a=b", "body": "hello",
		"headers": object{"content-type": "text/plain", "Host": "inside.example",
			"User-Agent": "mine"}})
	if err := handle(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.URL.String() != "/in?a=b" || got.Host != "inside.example" ||
		string(body) != "hello" {
		t.Errorf("%s %s at %s with %q", got.Method, got.URL, got.Host, body)
	}
	for name, want := range map[string]string{"Content-Type": "text/plain", "User-Agent": "mine",
		"X-Holdfast-Run": run.ID.String(), "X-Holdfast-Job": "nightly%20r%C3%A9port",
		"X-Holdfast-Scheduled-At": "2026-05-01T07:00:00Z", "X-Holdfast-Token": "42"} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	wantOutput(t, run, "HTTP/1.1 200 OK\nthanks\uFFFD")
	wantResult(t, run, `{"status":200}`)
}

func TestHTTPMethod(t *testing.T) {
	methods := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { methods <- r.Method })
	for want, params := range map[string]object{
		"GET":    {"url": url},
		"POST":   {"url": url, "body": "x"},
		"PUT":    {"url": url, "body": "x", "method": "PUT"},
		"DELETE": {"url": url, "method": "delete"},
	} {
		if err := mustBind(t, "http", params)(t.Context(), newRun("j")); err != nil {
			t.Fatal(err)
		}
		if got := <-methods; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestHTTPStatus(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		fmt.Fprint(w, "why: table is locked")
	})
	for _, c := range []struct {
		status int
		expect any
		want   string // "" is success
	}{
		{200, nil, ""}, {202, nil, ""},
		{500, nil, "expected a status from 200 to 299, found 500: why: table is locked"},
		{404, nil, "expected a status from 200 to 299, found 404: why"},
		{404, 404, ""},
		{200, 404, "expected status 404, found 200: why"},
		{409, []int{200, 409}, ""},
		{201, []int{200, 409}, "expected status 200 or 409, found 201"},
	} {
		run := newRun("j")
		params := object{"url": fmt.Sprintf("%s/%d?key=hunter2", url, c.status)}
		if c.expect != nil {
			params["expect_status"] = c.expect
		}
		err := mustBind(t, "http", params)(t.Context(), run)
		if c.want == "" && err != nil {
			t.Errorf("%d for %v: %v", c.status, c.expect, err)
		}
		if c.want != "" {
			wantError(t, err, c.want, fmt.Sprintf("GET %s/%d: ", url, c.status))
		}
		if !strings.HasSuffix(run.OutputText(), "\nwhy: table is locked") {
			t.Errorf("%d: output %q", c.status, run.OutputText())
		}
	}
}

func TestHTTPRedirects(t *testing.T) {
	hops := make(chan string, 20)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hops <- r.Header.Get("X-Holdfast-Token")
		if r.URL.Path == "/once" {
			http.Redirect(w, r, "/end", http.StatusFound)
		} else if r.URL.Path != "/end" {
			http.Redirect(w, r, "/again", http.StatusFound)
		}
	})
	if err := mustBind(t, "http", object{"url": url + "/once"})(t.Context(),
		newRun("j")); err != nil {
		t.Error(err)
	}
	if a, b := <-hops, <-hops; a != "42" || b != "42" {
		t.Errorf("tokens %q and %q", a, b)
	}
	wantError(t, mustBind(t, "http", object{"url": url + "/again"})(t.Context(), newRun("j")),
		"more than 5 redirects")
	if len(hops) != 6 {
		t.Errorf("%d requests, want the first and 5 redirects", len(hops))
	}
	if err := mustBind(t, "http", object{"url": url + "/again", "expect_status": 302})(t.Context(),
		newRun("j")); err != nil {
		t.Errorf("an expected redirect: %v", err)
	}
	if len(hops) != 7 {
		t.Errorf("%d requests, want one more", len(hops))
	}
}

func TestHTTPKeepsTheEndOfALongResponse(t *testing.T) {
	const long = 20 << 20
	wrote := make(chan int, 1)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		line := bytes.Repeat([]byte("x"), 1<<20)
		total := 0
		for total < long {
			n, err := w.Write(line)
			if total += n; err != nil {
				break
			}
		}
		wrote <- total
	})
	run := newRun("j")
	if err := mustBind(t, "http", object{"url": url})(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if n := <-wrote; n >= long {
		t.Errorf("the server could send all %d bytes", n)
	}
	text := run.OutputText()
	if !strings.HasPrefix(text, "[earlier output was cut]\n") || len(text) > 64<<10+100 ||
		!strings.HasSuffix(text, "x\n[no more than 8388608 bytes of the response were read]") {
		t.Errorf("output of %d bytes ends in %q", len(text), text[len(text)-80:])
	}
}

// TestHTTPEndsWithItsContext checks a server that does not reply, and one whose response does not
// end.
func TestHTTPEndsWithItsContext(t *testing.T) {
	for _, path := range []string{"/silent", "/endless"} {
		t.Run(path, func(t *testing.T) {
			reached, left := make(chan bool), make(chan bool)
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/endless" {
					fmt.Fprint(w, "so far")
					http.NewResponseController(w).Flush()
				}
				close(reached)
				<-r.Context().Done()
				close(left)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error)
			go func() {
				ended <- mustBind(t, "http", object{"url": url + path})(ctx,
					newRun("j"))
			}()
			<-reached
			cancel(fmt.Errorf("by hand: %w", jobs.ErrCancelled))
			err := <-ended
			wantError(t, err, "GET "+url+path, "by hand: cancelled by an operator")
			if !errors.Is(err, jobs.ErrCancelled) {
				t.Errorf("%v does not wrap the cause", err)
			}
			<-left
		})
	}
}

func TestHTTPTimeout(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	err := mustBind(t, "http", object{"url": url, "timeout": "50ms"})(t.Context(), newRun("j"))
	wantError(t, err, "response: ", "no complete response within 50ms")
}

func TestHTTPUnreachableAndBrokenConnections(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	run := newRun("j")
	wantError(t, mustBind(t, "http", object{"url": url})(t.Context(), run),
		"response: unexpected EOF")
	wantOutput(t, run, "HTTP/1.1 200 OK\nhalf")

	gone := httptest.NewServer(nil)
	gone.Close()
	err := mustBind(t, "http", object{"url": gone.URL + "/?key=hunter2"})(t.Context(), newRun("j"))
	wantError(t, err, "GET "+gone.URL+"/: ", "connection refused")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v quotes the query", err)
	}
}
