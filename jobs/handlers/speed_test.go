package handlers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// hostile are params that are bound slowly if anything is quadratic.
type hostile struct{ handler, params string }

// hostileParams returns params of about this size, in bytes, by their names.
func hostileParams(size int) map[string]hostile {
	repeated := func(part string, size int) string { return strings.Repeat(part, size/len(part)) }
	// many repeats a part with an increasing number.
	many := func(part string, size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, part, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	half := size / 2
	values := `"values": {` + many(`"a%d":1,`, half) + `}`
	// names of the greatest length that hints compare, and nearly the same ones
	long := func(part string) string { return many(part, half) }
	near := `"values": {` + long(`"`+strings.Repeat("ab", 28)+`%06d":1,`) + `}`
	return map[string]hostile{
		"unknown keys":         {"sql", `{` + many(`"k%d":1,`, size) + `}`},
		"one key":              {"sql", `{` + strings.TrimSuffix(repeated(`"args":[],`, size), ",") + `}`},
		"arguments":            {"sql", `{"statement": "SELECT $1", "args": [` + many("%d,", size) + `]}`},
		"brackets":             {"sql", `{"args": ` + repeated("[", half) + repeated("]", half) + `}`},
		"a number":             {"sql", `{"args": [` + repeated("1", size) + `]}`},
		"escapes":              {"sql", `{"statement": "` + repeated(`\u0041`, size) + `"}`},
		"blank statements":     {"sql", `{"statements": [` + strings.TrimSuffix(repeated(`" ",`, size), ",") + `]}`},
		"unknown arguments":    {"sql", `{"statement": "` + many("@b%d ", half) + `", ` + values + `}`},
		"their statements":     {"sql", `{"statements": [` + many(`"@b%d",`, half) + `], ` + values + `}`},
		"a long argument":      {"sql", `{"statement": "@` + repeated("a", half) + `", "values": {"b` + repeated("a", half) + `":1}}`},
		"nearly known":         {"sql", `{"statement": "` + long("@"+strings.Repeat("ba", 28)+"%06d ") + `", ` + near + `}`},
		"operators":            {"sql", `{"statement": "` + repeated("<@job", size) + `"}`},
		"at signs":             {"sql", `{"statement": "` + repeated("@", size) + `"}`},
		"dollar quotes":        {"sql", `{"statement": "` + repeated("$a$", size) + `"}`},
		"open dollar quotes":   {"sql", `{"statement": "` + many("$a%d$", size) + `"}`},
		"numbered dollars":     {"sql", `{"statement": "` + repeated("$1 ", size) + `"}`},
		"open comments":        {"sql", `{"statement": "` + repeated("/*", size) + `"}`},
		"line comments":        {"sql", `{"statement": "` + repeated(`--\n`, size) + `"}`},
		"quotes":               {"sql", `{"statement": "` + repeated("'e'", size) + `"}`},
		"wrong names":          {"sql", `{"statement": "SELECT 1", "values": {` + many(`"%d":1,`, size) + `}}`},
		"headers":              {"http", `{"url": "http://a/", "headers": {` + many(`"A%d":"b",`, size) + `}}`},
		"wrong headers":        {"http", `{"url": "http://a/", "headers": {` + many(`"A %d":"b",`, size) + `}}`},
		"statuses":             {"http", `{"url": "http://a/", "expect_status": [` + many("%d,", size) + `]}`},
		"open templates":       {"http", `{"url": "http://a/", "body": "` + repeated("{{", size) + `"}`},
		"literal templates":    {"http", `{"url": "http://a/", "body": "` + repeated(`{{\"{{\"}}`, size) + `"}`},
		"templates":            {"http", `{"url": "http://a/` + repeated("{{job}}", size) + `"}`},
		"templates of a query": {"http", `{"url": "http://a/?` + repeated("{{job}}", size) + `"}`},
		"dots":                 {"http", `{"url": "http://a/` + repeated("../", size) + `"}`},
		"forms of a time":      {"http", `{"url": "http://a/", "body": "{{scheduled_at:` + repeated("%Y", size) + `}}"}`},
		"a value many times":   {"http", `{"url": "http://a/", "body": "` + repeated("{{a}}", half) + `", "values": {"a": "` + repeated("b", half) + `"}}`},
		"names in headers":     {"http", `{"url": "http://a/", "headers": {` + many(`"A%d":"{{b}}",`, half) + `}, ` + values + `}`},
		"names in arguments":   {"command", `{"command": ["a",` + many(`"{{b%d}}",`, half) + `], ` + values + `}`},
		"names in variables":   {"command", `{"command": ["a"], "env": {` + many(`"A%d":"{{b}}",`, half) + `}, ` + values + `}`},
		"options of a shell":   {"command", `{"command": ["a",` + strings.TrimSuffix(repeated(`"-c","{{job}}",`, size), ",") + `]}`},
		"scripts of a shell":   {"command", `{"command": ["sh",` + strings.TrimSuffix(repeated(`"-c","{{job}}",`, size), ",") + `]}`},
		"a value in arguments": {"command", `{"command": ["a",` + strings.TrimSuffix(repeated(`"{{a}}",`, half), ",") + `], "values": {"a": "` + repeated("b", half) + `"}}`},
	}
}

// TestHostileParamsAreFast checks params of 64 KB, which an added job or a trigger can have. On a
// slow machine they may take longer, but not three times as long as half of them.
func TestHostileParamsAreFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	size := (64 << 10) / part
	halves := hostileParams(size / 2)
	for name, c := range hostileParams(size) {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(c.params)) && name != "brackets" {
				t.Fatalf("not JSON: %.100s", c.params)
			}
			binds := func(h hostile) func() {
				return func() {
					// most of them are refused
					if _, err := bind(t, h.handler, h.params); err != nil &&
						len(err.Error()) > 32*len(h.params) {
						t.Errorf("an error of %d bytes", len(err.Error()))
					}
				}
			}
			speedtest.WithinOrLike(t, name, 100*time.Millisecond/time.Duration(part),
				binds(halves[name]), binds(c))
		})
	}
}

// TestExpansionsAreBounded checks that a long value in many places is refused, in one text and in
// many.
func TestExpansionsAreBounded(t *testing.T) {
	value := strings.Repeat("b", 32<<10)
	for _, times := range []int{32, 33} {
		for handler, params := range map[string]object{
			"http": {"url": "http://a/", "body": strings.Repeat("{{a}}", times-1),
				"headers": object{"X-A": "{{a}}"}},
			"command": {"command": strings.Fields("echo" + strings.Repeat(" {{a}}", times-1)),
				"env": object{"A": "{{a}}"}},
		} {
			params["values"] = object{"a": value}
			raw, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			_, err = bind(t, handler, string(raw))
			if refused := err != nil && strings.Contains(err.Error(),
				"expand to more than 1048576 bytes"); refused != (times > 32) {
				t.Errorf("%s: %d times: got %v", handler, times, err)
			}
		}
	}
}

// TestManyMistakesAreNotListed checks that params with many mistakes have a short error.
func TestManyMistakesAreNotListed(t *testing.T) {
	_, err := bind(t, "sql", `{"statements": [`+
		strings.TrimSuffix(strings.Repeat(`" ",`, 21), ",")+`]}`)
	wantError(t, err, "number 20 is blank; found more than 20 mistakes, the others are not listed")
	if err != nil && strings.Contains(err.Error(), "number 21") {
		t.Errorf("got %v, want 20 mistakes", err)
	}
}

// FuzzParams binds any params. Refused ones have a *ParamsError, which is not much longer.
func FuzzParams(f *testing.F) {
	for _, handler := range []string{"sql", "http", "command"} {
		for _, params := range []string{`{}`, `null`, `[]`, `{"statement": "SELECT @a", "values": {"a": 1}}`,
			`{"statements": ["SELECT '@job'", "$a$@b$a$"], "args": [1.5, null]}`,
			`{"url": "http://h/{{a}}?{{job}}", "headers": {"A": "{{token}}"}, "values": {"a": ".."}}`,
			`{"url": "http://h/", "body": "{{\"{{\"}}{{scheduled_at:%Y%%}}", "expect_status": [200]}`,
			`{"command": ["sh", "-c", "x", "{{run_id}}"], "env": {"A": "{{attempt}}"}, "grace": "1s"}`,
		} {
			f.Add(handler, params)
		}
	}
	f.Fuzz(func(t *testing.T, handler, params string) {
		_, err := bind(t, handler, params)
		var refused *jobs.ParamsError
		if err == nil || errors.Is(err, jobs.ErrUnknownHandler) {
			return
		}
		if !errors.As(err, &refused) || len(err.Error()) > 100*len(params)+1000 {
			t.Errorf("%s %.300s: got an error of %d bytes: %.1000v", handler, params,
				len(err.Error()), err)
		}
	})
}
