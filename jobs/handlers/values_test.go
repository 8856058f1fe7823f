package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// successes is the part of a store that knows the previous success.
type successes struct {
	storage.RunStore // nil: no test calls the other methods
	previous         time.Time
	err              error
	reads            *int
}

func (s successes) Saved(context.Context, string) (json.RawMessage, error) { return nil, nil }

func (s successes) PreviousSuccess(_ context.Context, _ string,
	before time.Time) (time.Time, error) {
	*s.reads++
	if !s.previous.Before(before) {
		return time.Time{}, nil
	}
	return s.previous, s.err
}

// runAfter returns a run of 07:00 with a previous success, and the count of its reads.
func runAfter(job string, previous time.Time, err error) (*jobs.Run, *int) {
	reads := new(int)
	store := successes{previous: previous, err: err, reads: reads}
	return newRun(job).With(attempt.NewKey(), &storage.Attempt{Store: store,
		NewLog: zerolog.Nop, Output: output.NewTail(output.Max)}), reads
}

func TestSQLHasNamedArguments(t *testing.T) {
	f := newFixture(t)
	insert := object{"statements": []string{
		"INSERT INTO sales (item, price) VALUES (@job || ' ''@job'' ' || @item, @token + @attempt)",
		"INSERT INTO sales (item, price) VALUES (coalesce(@previous_scheduled_at, 'none'), @big)",
		"INSERT INTO sales (item, price) SELECT 'id', count(*) FROM holdfast_runs " +
			"WHERE id = @run_id"},
		"values": object{"item": "pen", "big": 9007199254740993}}
	run := f.run(t)
	if err := mustBind(t, "sql", insert)(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	f.expectSales(t, "j '@job' pen integer 2", "none integer 9007199254740993", "id integer 1")

	again := f.run(t)
	again.ScheduledAt = again.ScheduledAt.Add(time.Second)
	if err := mustBind(t, "sql", object{"statement": "UPDATE sales SET item = " +
		"@previous_scheduled_at || ' ' || (@previous_scheduled_at < @scheduled_at) || " +
		"(datetime(@scheduled_at) = @scheduled_at) || $1 WHERE price = 1", "args": []any{"x"}})(
		t.Context(), again); err != nil {
		t.Fatal(err)
	}
	f.expectSales(t, "j '@job' pen integer 2", "none integer 9007199254740993",
		run.ScheduledAt.Format("2006-01-02 15:04:05")+" 11x integer 1")
}

func TestNamesOfValuesAreChecked(t *testing.T) {
	for _, c := range []struct {
		handler string
		params  string
		want    string // a part of the error; "" is no error
	}{
		{"sql", `{"statement": "SELECT @schedule_at"}`,
			`statement: found the unknown argument @schedule_at; did you mean "scheduled_at"?`},
		{"sql", `{"statements": ["SELECT 1", "SELECT @region"], "values": {"regio": 1}}`,
			`statements: number 2: found the unknown argument @region; did you mean "regio"?`},
		{"sql", `{"statement": "SELECT a<@token"}`,
			"statement: found @token directly after an operator; write a space before the @"},
		{"sql", `{"statement": "SELECT a<@b, c @@ d, '@x', $$@x$$ -- @x"}`, ""},
		{"sql", `{"statement": "SELECT 1", "values": {"token": 1}}`,
			"values: found token, which the scheduler sets; expected another name"},
		{"sql", `{"statement": "SELECT 1", "values": {"1a": 1}}`, `values: found the name "1a"`},
		{"sql", `{"statement": "SELECT 1", "values": {"a": [1]}}`,
			"values: a: expected a text, a number, true, false or null"},
		{"http", `{"url": "http://h/{{schedule_at}}"}`,
			`url: found the unknown name "schedule_at"; did you mean "scheduled_at"?`},
		{"http", `{"url": "http://{{job}}/"}`, "url: found a template before the path"},
		{"http", `{"url": "http://h:{{token}}/"}`, "url: found a template before the path"},
		{"http", `{"url": "http://h/a/{{to}}", "values": {"to": ".."}}`,
			`url: found a value that makes the segment "." or ".."`},
		{"http", `{"url": "http://h/a/{{to}}.?x", "values": {"to": "."}}`,
			`url: found a value that makes the segment "." or ".."`},
		{"http", `{"url": "http://h/../{{to}}", "values": {"to": "..."}}`, ""},
		{"http", `{"url": "http://h/", "body": "{{ job"}`, "body: found {{ without }}"},
		{"http", `{"url": "http://h/", "body": "{{.Name}}"}`,
			"body: found {{.Name}}, expected a name such as {{scheduled_at}}"},
		{"http", `{"url": "http://h/", "headers": {"X-A": "{{jobs}}"}}`,
			`headers: X-A: found the unknown name "jobs"; did you mean "job"?`},
		{"http", `{"url": "http://h/{{scheduled_at:%y}}"}`, `url: found "%y" in the form of a time`},
		{"http", `{"url": "http://h/{{scheduled_at:%}}"}`, "url: found % at the end"},
		{"http", `{"url": "http://h/{{job:%Y}}"}`, `url: found the form "%Y" of job`},
		{"command", `{"command": ["echo", "{{nobody}}"]}`, `command: number 2: found the unknown name`},
		{"command", `{"command": ["{{job}}"]}`, "command: found a template in the program"},
		{"command", `{"command": ["env", "A=1", "/bin/bash", "-ec", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "docker ps --format '{{\"{{\"}}.Names}}'"]}`, ""},
		{"command", `{"command": ["sh", "-c", "echo $1", "sh", "{{job}}"]}`, ""},
		{"command", `{"command": ["grep", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["sh", "-c", "--", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "-e", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "--", "-e {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "-o", "errexit", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "+e", "-{{job}}", "echo"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "-e", "--", "echo $1", "sh", "-{{job}}"]}`, ""},
		{"command", `{"command": ["bash", "/opt/etl.sh", "-incremental", "-date", "{{scheduled_at}}"]}`, ""},
		{"command", `{"command": ["sh", "run.sh", "-c", "--day", "{{job}}"]}`, ""},
		{"command", `{"command": ["sh", "-c", "git \"$@\"", "git", "-C", "{{job}}", "log"]}`, ""},
		{"command", `{"command": ["sh", "-c", "exec psql \"$@\"", "psql", "--command", "{{job}}"]}`, ""},
		{"command", `{"command": ["env", "SHELL=/bin/bash", "su", "bob", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "A=1", "bash", "-eo", "pipefail", "run.sh", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["bash", "--norc", "--", "run.sh", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["bash", "-o", "errexit", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["bash", "+O", "extglob", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["bash", "--rcfile", "rc", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["bash", "--init-file", "rc", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["zsh", "--emulate", "csh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["bash", "run.sh", "sh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["sh", "-c", "sh \"$@\"", "sh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "-s", "/bin/sh", "nobody", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["docker", "run", "--entrypoint=/bin/sh", "image", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["fish", "--command", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["fish", "--command=echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["fish", "-C", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["fish", "--init-command", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["fish", "-p", "profile", "-c", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["csh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["tcsh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["mksh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["rbash", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["rksh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["yash", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["lksh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["posh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["/usr/bin/tcsh", "-fc", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "app", "-c", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "-c", "echo {{job}}", "app"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "-", "app", "--command", "echo {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "-s", "/bin/sh", "app", "--command", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "--session-command=echo {{job}}", "app"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "-cecho {{job}}", "app"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["su", "app", "--", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["/sbin/runuser", "app", "-lc", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["runuser", "-u", "app", "--", "sh", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["script", "-qec", "{{job}}", "/dev/null"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["script", "/dev/null", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["flock", "/l", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["flock", "-nw", "5", "/l", "--command", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["flock", "/l", "bash", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["nice", "flock", "--timeout=5", "/l", "-c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "-S", "sh -c 'echo {{job}}'"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "-uPS1", "-S", "sh -c 'echo {{job}}'"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "-CSrc", "-S", "sh -c 'echo {{job}}'"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "-i", "-u", "A", "B=1", "-Stool {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["/usr/bin/env", "--split-string=tool {{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["env", "-vS", "bash -c", "{{job}}"]}`,
			"command: found a template in the script of a shell"},
		{"command", `{"command": ["runuser", "-u", "app", "--", "./tool", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["runuser", "--user=app", "--", "./tool", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["flock", "/l", "./tool", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["flock", "-w", "5", "/l", "./tool", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["./script", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["su", "app", "-c", "echo \"$1\"", "--", "sh", "{{job}}"]}`, ""},
		{"command", `{"command": ["env", "-i", "-u", "A", "B=1", "./tool", "-S", "{{job}}"]}`, ""},
		{"command", `{"command": ["env", "-S", "./tool -c", "{{job}}"]}`, ""},
		{"command", `{"command": ["env", "-uPS1", "./tool", "{{job}}"]}`, ""},
		{"command", `{"command": ["npm", "run", "script", "--", "-c", "{{job}}"]}`, ""},
		{"command", `{"command": ["echo", "{{a}}"], "values": {"a": "\u0000"}}`,
			"command: number 2 holds a NUL character"},
		{"command", `{"command": ["env"], "env": {"A": "{{nobody}}"}}`,
			`env: A: found the unknown name "nobody"`},
		{"command", `{"command": ["env"], "env": {"A": "{{a}}"}, "values": {"a": "\u0000"}}`,
			"env: the value of A holds a NUL character"},
	} {
		_, err := bind(t, c.handler, c.params)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), "params: "+c.want)) {
			t.Errorf("%s %s: got %v, want %q", c.handler, c.params, err, c.want)
		}
	}
}

func TestHTTPTemplatesAreEscapedForTheirPlace(t *testing.T) {
	var got []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.RequestURI, r.Header.Get("X-Since"), string(body))
	})
	previous := time.Date(2026, 4, 30, 7, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		contentType, body, want string
	}{
		{"", `{"for": "{{who}}", "token": {{token}}}`, `{"for": "a/b \"\u0026?", "token": 42}`},
		{"application/vnd.x+json; charset=utf-8", `"{{who}}"`, `"a/b \"\u0026?"`},
		{"application/x-www-form-urlencoded", "who={{who}}&n={{n}}", "who=a%2Fb+%22%26%3F&n=1.5"},
		{"text/xml", "<a>{{who}}</a>", "<a>a/b &#34;&amp;?</a>"},
		{"", `{{who}} {{"{{"}}x}} {{none}}`, `a/b "&? {{x}} `},
		{"text/plain", `{"{{who}}"}`, `{"a/b "&?"}`},
	} {
		got = nil
		run, reads := runAfter("nächtlich", previous, nil)
		headers := object{"X-Since": "{{ previous_scheduled_at }} {{job}}"}
		if c.contentType != "" {
			headers["content-type"] = c.contentType
		}
		err := mustBind(t, "http", object{
			"url":  url + "/{{who}}/{{scheduled_at:%Y-%m-%d}}?who={{who}}&at={{scheduled_at:%H%M%S %s %j%%}}",
			"body": c.body, "headers": headers,
			"values": object{"who": `a/b "&?`, "n": 1.5, "none": nil}})(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"/a%2Fb%20%22&%3F/2026-05-01?who=a%2Fb+%22%26%3F&at=070000+1777618800+121%25",
			"2026-04-30T07:00:00Z n%C3%A4chtlich", c.want}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("%s: got %q, want %q", c.contentType, got, want)
				break
			}
		}
		if *reads != 1 {
			t.Errorf("got %d reads of the previous success, want 1", *reads)
		}
	}
}

func TestCommandTemplatesInArgumentsAndEnvironment(t *testing.T) {
	run, reads := runAfter("j", time.Time{}, nil)
	err := mustBind(t, "command", object{
		"command": []string{"sh", "-c", `printf '%s|' "$@" "$SINCE" "$DAY"`, "sh", "{{scheduled_at}}",
			"{{n}}; exit 3", "{{run_id}}"},
		"env":    object{"SINCE": "<{{previous_scheduled_at}}>", "DAY": "{{scheduled_at:%j}}"},
		"values": object{"n": 7}})(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	wantOutput(t, run, "2026-05-01T07:00:00Z|7; exit 3|"+run.ID.String()+"|<>|121|")
	if *reads != 1 {
		t.Errorf("got %d reads of the previous success, want 1", *reads)
	}
}

func TestPreviousSuccessIsReadOnlyWhereItIsUsed(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	unavailable := errors.New("store does not answer")
	for handler, params := range map[string]object{
		"http":    {"url": url, "headers": object{"X-At": "{{scheduled_at}}"}},
		"command": {"command": []string{"true", "{{scheduled_at}}"}},
	} {
		run, reads := runAfter("j", time.Time{}, unavailable)
		if err := mustBind(t, handler, params)(t.Context(), run); err != nil || *reads != 0 {
			t.Errorf("%s without it: got %v and %d reads", handler, err, *reads)
		}
	}
	at := time.Date(2026, 4, 30, 7, 0, 0, 0, time.UTC)
	for handler, params := range map[string]object{
		"http":    {"url": url + "?{{previous_scheduled_at}}"},
		"command": {"command": []string{"true", "{{previous_scheduled_at}}"}},
	} {
		run, _ := runAfter("j", at, unavailable)
		if err := mustBind(t, handler, params)(t.Context(), run); !errors.Is(err, unavailable) {
			t.Errorf("%s: got %v, want the error of the store", handler, err)
		}
	}
}
