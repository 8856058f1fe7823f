package handlers_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

// bind returns a handler for one job's params, as the scheduler does at start.
func bind(t testing.TB, name, params string) (jobs.HandlerFunc, error) {
	t.Helper()
	registry, err := jobs.NewRegistry(handlers.SQL(), handlers.HTTP(nil), handlers.Command())
	if err != nil {
		t.Fatal(err)
	}
	return registry.Bind(name, json.RawMessage(params))
}

func mustBind(t testing.TB, name string, params any) jobs.HandlerFunc {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := bind(t, name, string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func TestParamsAccepted(t *testing.T) {
	defaults, err := json.Marshal(handlers.HTTPParams{URL: "http://a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ handler, params string }{
		{"sql", `{"statement": "DELETE FROM t"}`},
		{"sql", `{"statement": "DELETE FROM t WHERE a = $1", "args": [1]}`},
		{"sql", `{"statements": ["DELETE FROM t", "DELETE FROM u"]}`},
		{"http", `{"url": "http://localhost/"}`},
		{"http", `{"url": "https://example.org", "method": "delete", "expect_status": 204, "timeout": "5s"}`},
		{"http", `{"url": "HTTPS://example.org", "expect_status": [200, 404], "headers": {"Authorization": "Bearer x"}}`},
		{"http", `{"url": "http://a", "expect_status": null, "timeout": null}`},
		{"http", string(defaults)},
		{"command", `{"command": ["true"]}`},
		{"command", `{"command": ["printf", ""], "dir": "/", "env": {"A": ""}, "grace": "0s"}`},
	} {
		if _, err := bind(t, c.handler, c.params); err != nil {
			t.Errorf("%s %s: %v", c.handler, c.params, err)
		}
	}
}

// TestParamsRefused checks that each mistake is reported with its key.
func TestParamsRefused(t *testing.T) {
	for _, c := range []struct {
		handler, params string
		want            []string
	}{
		{"sql", `{}`, []string{"statement: expected statement or statements, found neither"}},
		{"sql", `{"statement": ""}`, []string{"statement: expected statement or statements, found neither"}},
		{"sql", `{"statement": " \n"}`, []string{"statement: is blank"}},
		{"sql", `{"statements": []}`, []string{"statements: expected at least one"}},
		{"sql", `{"statements": ["a", " ", ""]}`, []string{"statements: number 2 is blank", "statements: number 3 is blank"}},
		{"sql", `{"statement": "a", "statements": ["b"]}`, []string{"statements: expected either"}},
		{"sql", `{"statements": ["a"], "args": [1]}`, []string{"args: go with statement"}},
		{"sql", `{"statement": "a", "args": [{"b": 1}]}`, []string{"args: number 1: expected a text, a number"}},
		{"sql", `{"statement": "a", "args": [1, 9223372036854775808]}`, []string{"args: number 2: 9223372036854775808 does not fit"}},
		{"sql", `{"statement": "a", "args": "b"}`, []string{"args: expected a list"}},
		{"sql", `{"statement": "a", "arguments": []}`, []string{`unknown key "arguments"`}},

		{"sql", `{"statement": "SET a = 1", "share_transaction": true}`, []string{
			"share_transaction: statement begins with SET, expected DELETE, INSERT, MERGE, SELECT"}},
		{"sql", `{"statements": ["SELECT 1", "-- a\nTRUNCATE b"], "share_transaction": true}`,
			[]string{"share_transaction: number 2 begins with TRUNCATE"}},

		{"http", `{}`, []string{"url: is missing"}},
		{"http", `{"url": "/path"}`, []string{`url: found the scheme ""`}},
		{"http", `{"url": "ftp://example.org"}`, []string{`url: found the scheme "ftp"`}},
		{"http", `{"url": "http:///path"}`, []string{"url: names no host"}},
		{"http", `{"url": "http://:80/"}`, []string{"url: names no host"}},
		{"http", `{"url": "http://a b/"}`, []string{"url: is no URL"}},
		{"http", `{"url": "http://a", "method": "GET IT", "timeout": "-1s"}`,
			[]string{`method: found "GET IT"`, "timeout: found -1s"}},
		{"http",
			`{"url": "http://a", "headers": {"a b": "c", "X-holdfast-token": "1", "D": "e\nf"}}`,
			[]string{`headers: "a b" is no header's name`,
				"X-holdfast-token is set by the scheduler", "value of D holds a control"}},
		{"http", `{"url": "http://a", "headers": {"Host": "a", "authorization": "b", "Authorization": "c", "host": "d"}}`,
			[]string{"headers: found the header Authorization a second time as authorization",
				"headers: found the header Host a second time as host"}},
		{"http", `{"url": "http://a", "expect_status": 99}`, []string{"expect_status: found 99, expected 200 to 599"}},
		{"http", `{"url": "http://a", "expect_status": []}`, []string{"expect_status: expected a status such as 200"}},
		{"http", `{"url": "http://a", "expect_status": "2xx"}`, []string{"expect_status: expected a status such as 200"}},
		{"http", `{"url": "http://a", "timeout": "0s"}`, []string{"timeout: found 0s, expected more than 0s"}},
		{"http", `{"url": "http://a", "timeout": "soon"}`, []string{`timeout: found "soon", expected a duration`}},

		{"command", `{}`, []string{"command: expected a list"}},
		{"command", `{"command": "rm -rf x"}`, []string{"command: found a string, expected a list of strings, such as [a, b]"}},
		{"command", `{"command": [""]}`, []string{"command: expected a list"}},
		{"command", `{"command": ["a", "\u0000"]}`, []string{"command: holds a NUL"}},
		{"command", `{"command": ["a"], "env": {"B=C": "", "HOLDFAST_TOKEN": "1", "D": "\u0000"}}`,
			[]string{`env: "B=C" is no variable's name`,
				"env: HOLDFAST_TOKEN is set by the scheduler", "value of D holds a NUL"}},
		{"command", `{"command": ["a"], "grace": "9s"}`, []string{"grace: found 9s, expected 0s to 8s"}},
		{"command", `{"command": ["a"], "grace": "-1s"}`, []string{"grace: found -1s"}},
	} {
		_, err := bind(t, c.handler, c.params)
		var refused *jobs.ParamsError
		if !errors.As(err, &refused) {
			t.Errorf("%s %s: got %v, want a ParamsError", c.handler, c.params, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: got %v, want %q in it", c.handler, c.params, err, want)
			}
		}
		if len(refused.Problems) != len(c.want) {
			t.Errorf("%s %s: %d problems, want %d: %v", c.handler, c.params, len(refused.Problems),
				len(c.want), err)
		}
	}
}

// TestErrorsDoNotQuoteParams checks that no error contains the value of a param, because params may
// be secret.
func TestErrorsDoNotQuoteParams(t *testing.T) {
	for _, params := range []string{
		`{"url": "http://user:hunter2@a b/?key=hunter2"}`,
		`{"url": "ftp://user:hunter2@host/?key=hunter2"}`,
		`{"url": "http://a", "headers": {"Authorization": "hunter2\u0001"}}`,
	} {
		if _, err := bind(t, "http", params); err == nil ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got error %v, want one without the value", params, err)
		}
	}
}
