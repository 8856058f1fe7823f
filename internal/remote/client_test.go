package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const secret = "s3cret-token"

// clientOf returns a client of a handler, with a token.
func clientOf(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return clientAt(t, server.URL)
}

func clientAt(t *testing.T, address string) *Client {
	t.Helper()
	parsed, err := ParseServer(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Server: parsed, Token: secret, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answer writes a JSON answer.
func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestActionsHaveTokenAndHeaders(t *testing.T) {
	var sent *http.Request
	var body string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		sent, body = r, string(text)
		answer(w, http.StatusOK, `{"id": "01a1fecc-ef57-7d76-aac5-e8f353379cd3", "created": true,
			"params": {"sign": "\u003c\u003e\u0026 \\u003c"}}`)
	})
	wait := 90 * time.Second
	run, err := c.Trigger(t.Context(), "late data", storage.TriggerRequest{Job: "a/b c", Key: "k",
		Params: json.RawMessage(`{"rows":1}`), Wait: &wait, EvenPaused: true})
	if err != nil || !run.Created || string(run.Params) != `{"sign":"<>& \\u003c"}` {
		t.Errorf("got %+v and %v, want the run with its params as the store has them", run, err)
	}
	if sent.URL.EscapedPath() != "/api/v1/jobs/a%2Fb%20c/trigger" || sent.Method != "POST" ||
		sent.Header.Get("Authorization") != "Bearer "+secret ||
		sent.Header.Get("X-Holdfast-Action") != "1" ||
		sent.Header.Get("Idempotency-Key") != "k" {
		t.Errorf("got %s %s with %v", sent.Method, sent.URL, sent.Header)
	}
	want := `{"even_paused":true,"params":{"rows":1},"reason":"late data","wait":"1m30s"}`
	if body != want {
		t.Errorf("got the body %s, want %s", body, want)
	}
}

// TestRefusalsAreErrorsOfTheStore checks that callers can treat a refusal like the error of an
// action in this process.
func TestRefusalsAreErrorsOfTheStore(t *testing.T) {
	var status int
	var body string
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		answer(w, status, body)
	})
	for _, test := range []struct {
		status int
		body   string
		want   error
		text   string
	}{
		{403, `{"error": "ann needs the permission pause on job x", "code": "permission"}`, nil,
			"ann needs the permission pause on job x"},
		{404, `{"error": "job x: not found", "code": "not_found"}`, storage.ErrNotFound,
			"job x: not found"},
		{404, `{"error": "run 1: not found"}`, storage.ErrNotFound, "run 1: not found"},
		{409, `{"error": "conflict", "code": "conflict"}`, storage.ErrConflict, "conflict"},
		{409, `{"error": "x", "code": "from_config"}`, storage.ErrFromConfig, "x"},
		{409, `{"error": "x", "code": "has_dependents"}`, storage.ErrHasDependents, "x"},
		{409, `{"error": "x", "code": "in_transaction"}`, storage.ErrInTransaction, "x"},
		{409, `{"error": "x", "code": "busy"}`, storage.ErrBusy, "x"},
		{409, `{"error": "x", "code": "paused"}`, storage.ErrPaused, "x"},
		{422, `{"error": "x", "code": "key_used"}`, storage.ErrKeyUsed, "x"},
		{400, `{"error": "x", "code": "bad_input"}`, storage.ErrBadInput, "x"},
		{501, `{"error": "x", "code": "unsupported"}`, errors.ErrUnsupported, "x"},
		{429, `{"error": "too many"}`, storage.ErrUnavailable, "too many; try again in 7 s"},
		{503, `{"error": "too busy"}`, storage.ErrUnavailable, "too busy; try again in 7 s"},
		{401, `{"error": "wrong token"}`, nil, "refused the token: wrong token"},
		{404, `{"error": "a` + "\\u001b[31m" + `"}`, storage.ErrNotFound, "a [31m"},
	} {
		status, body = test.status, test.body
		_, err := c.Pause(t.Context(), "", storage.Target{Kind: storage.TargetAll})
		var refusal *Refusal
		if !errors.As(err, &refusal) || !strings.HasSuffix(err.Error(), test.text) ||
			test.want != nil && !errors.Is(err, test.want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%d %s: got %v, want %q and %v", test.status, test.body, err, test.text,
				test.want)
		}
	}
	status, body = 422, `{"error": "x", "code": "bad_job", "problems": [
		{"line": 2, "column": 3, "key": "handler", "message": "unknown"}]}`
	_, err := c.PutJob(t.Context(), "", []byte("name: x"), false)
	var wrong *operations.SpecError
	if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Line != 2 {
		t.Errorf("got %v, want the problem with its line", err)
	}
	status, body = 409, `{"error": "x", "code": "paused", "paused": {"paused_by": "bo"}}`
	_, err = c.Trigger(t.Context(), "", storage.TriggerRequest{Job: "x"})
	var paused *storage.PausedError
	if !errors.As(err, &paused) || paused.Pause.By != "bo" {
		t.Errorf("got %v, want the pause of bo", err)
	}
}

// TestTokenStaysWithItsServer checks redirects, which other servers could use to get the token.
func TestTokenStaysWithItsServer(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked++
	}))
	defer other.Close()
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/x?"+secret, http.StatusTemporaryRedirect)
	})
	_, read := c.Pauses(t.Context())
	_, acted := c.Pause(t.Context(), "", storage.Target{Kind: storage.TargetAll})
	for _, err := range []error{read, acted} {
		if err == nil || !strings.Contains(err.Error(), "redirects to "+other.URL+", ") ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want the host of the redirect and no more", err)
		}
	}
	if asked > 0 {
		t.Errorf("got %d requests to the other server, want none", asked)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	asked := false
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			asked = true
			answer(w, http.StatusOK, "[]")
		}))
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	_, err := clientAt(t, server.URL).Locks(t.Context())
	if asked || !errors.Is(err, storage.ErrUnavailable) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v from an unknown certificate, want an error that names it", err)
	}
}

func TestPlainHTTPWithAToken(t *testing.T) {
	for address, accepted := range map[string]bool{"http://127.0.0.1:1": true,
		"http://localhost": true, "http://[::1]:8080": true, "http://scheduler.example": false,
		"https://scheduler.example": true, "http://127.0.0.1.example": false} {
		server, err := ParseServer(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Options{Server: server, Token: secret})
		if (err == nil) != accepted || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want accepted: %v", address, err, accepted)
		}
		if _, err := New(Options{Server: server, Token: secret, PlainHTTP: true}); err != nil {
			t.Errorf("%s with PlainHTTP: %v", address, err)
		}
		if _, err := New(Options{Server: server}); err != nil {
			t.Errorf("%s without a token: %v", address, err)
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example":            "https://a.example",
		"https://a.example/":           "https://a.example",
		"https://a.example/holdfast/":  "https://a.example/holdfast",
		"a.example":                    "",
		"ftp://a.example":              "",
		"https://":                     "",
		"https://u:" + secret + "@a.b": "",
		"https://a.example?x=1":        "",
		"https://a.example/#x":         "",
		"https://u:" + secret + "@a b": "",
		"u:" + secret + "@a.example":   "",
		"https:u:" + secret + "@a.b":   "",
		"a.example?token=" + secret:    "",
	} {
		got, err := ParseServer(text)
		if want == "" && (err == nil || strings.Contains(err.Error(), secret)) ||
			want != "" && (err != nil || got.String() != want) {
			t.Errorf("%s: got %v and %v, want %q", text, got, err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	longest := strings.Repeat("x", maxToken)
	for text, want := range map[string]string{secret + "\n": secret, secret + "\r\n": secret,
		secret: secret, "": "", "\n": "", "a b": "", "a\nb\n": "", "ä": "", longest + "x": "",
		longest + "\r\n": longest} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.20q: got %.20q and %v, want %.20q", text, got, err, want)
		}
		if err != nil && text != "" && text != "\n" && strings.Contains(err.Error(), text) {
			t.Errorf("%.20q: the error %v quotes the token", text, err)
		}
	}
}

func TestAnswersThatAreNoneOfAReplica(t *testing.T) {
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		want   string
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}, "not as a replica of Holdfast"},
		"another program": {http.NotFound, "not as a replica of Holdfast"},
		"another JSON": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, `{"a": 1}`)
		}, "not as this version expects it"},
		"a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}, "bad gateway"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			answer(w, http.StatusOK, "[")
		}, "the answer is not complete"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, "[")
			spaces := strings.Repeat(" ", 1<<20)
			for range maxAnswer>>20 + 1 {
				if _, err := io.WriteString(w, spaces); err != nil {
					return
				}
			}
		}, "more than 64 MiB"},
	} {
		_, err := clientOf(t, test.handle).Locks(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestUnknownResults checks that the error of an action without an answer says that it may have
// happened.
func TestUnknownResults(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		panic(http.ErrAbortHandler)
	})
	_, err := c.Pause(t.Context(), "", storage.Target{Kind: storage.TargetAll})
	if !errors.Is(err, storage.ErrUnavailable) ||
		!strings.Contains(err.Error(), "the result is unknown") {
		t.Errorf("action: %v", err)
	}
	if _, err = c.Pauses(t.Context()); !errors.Is(err, storage.ErrUnavailable) ||
		strings.Contains(err.Error(), "unknown") {
		t.Errorf("question: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err = c.Pauses(ctx); !errors.Is(err, stop) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// TestListsHaveAllPages follows links to further pages, whatever their path is.
func TestListsHaveAllPages(t *testing.T) {
	var queries []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		var page []storage.Record
		for range min(2, atoi(r.URL.Query().Get("limit"))) {
			page = append(page, storage.Record{ID: uuid.New(), State: jobs.Running})
		}
		if r.URL.Query().Get("before") == "" {
			w.Header().Set("Link", `</other/path?before=x&limit=2>; rel="next", </p>; rel="prev"`)
		}
		body, _ := json.Marshal(page)
		answer(w, http.StatusOK, string(body))
	})
	all, err := list[storage.Record](t.Context(), c, 3, url.Values{"limit": {"2"}}, "runs")
	if err != nil || len(all) != 2 {
		t.Errorf("a short page: got %d and %v, want 2", len(all), err)
	}
	queries = nil
	err = c.ExportAudit(t.Context(), storage.AuditFilter{Actor: "ann", Limit: 2},
		func([]storage.Audited) error { return nil })
	if want := "actor=ann&limit=2&order=oldest before=x&limit=2"; err != nil ||
		strings.Join(queries, " ") != want {
		t.Errorf("got the queries %q and %v, want %q", queries, err, want)
	}
}

func atoi(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// answers is a transport that answers with a status and a body at a time.
type answers func(since time.Duration) (int, string)

type begun struct {
	at      time.Time
	answers answers
}

func (b begun) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := b.answers(time.Since(b.at))
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body))}, nil
}

// TestWaitGoesOnWithoutAnswers waits for a run through an outage of the server.
func TestWaitGoesOnWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := ParseServer("https://a.example")
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Options{Server: server, Transport: begun{time.Now(),
			func(since time.Duration) (int, string) {
				switch {
				case since < 10*time.Second:
					return 200, `{"state": "running"}`
				case since < 20*time.Second:
					return 0, ""
				case since < 30*time.Second:
					return 503, `{"error": "the store"}`
				}
				return 200, `{"state": "succeeded"}`
			}}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		run, err := c.Wait(t.Context(), uuid.New())
		if waited := time.Since(start); err != nil || run.State != jobs.Succeeded ||
			waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("got %+v and %v after %s, want success after 30 s", run, err, waited)
		}
	})
}
