package attacks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRow14 sends texts that once took a parser seconds.
func TestRow14(t *testing.T) {
	a := begin(t, 14)
	g := a.start(plan{admin: a.guarded()})
	const size = 63 << 10
	// many repeats a part with an increasing number.
	many := func(part string, size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, part, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	texts := map[string]string{
		"variables in a name": `{"name": ` + quoted(strings.Repeat("${A", size/3)) +
			`, "handler": "sql", "params": {"statement": "SELECT 1"}}`,
		"variables in a param": `{"name": "a", "handler": "sql", "params": {"statement": ` +
			quoted(strings.Repeat("${A:-", size/5)) + `}}`,
		"deep lists": `{"name": "a", "handler": "sql", "params": {"args": ` +
			strings.Repeat("[", size/2) + strings.Repeat("]", size/2) + `}}`,
		"schedule": `{"name": "a", "handler": "sql", "params": {"statement": "SELECT 1"}, ` +
			`"schedule": ` + quoted(strings.Repeat("1,", size/2)) + `}`,
		"words of a schedule": `{"name": "a", "handler": "sql", "params": {"statement": ` +
			`"SELECT 1"}, "schedule": ` + quoted(strings.Repeat("every ", size/6)) + `}`,
		"unknown arguments": `{"name": "a", "handler": "sql", "params": {"statement": ` +
			quoted(many("@b%d ", size/2)) + `, "values": {` + many(`"a%d":1,`, size/2-500) + `}}}`,
		"two long names": `{"name": "a", "handler": "sql", "params": {"statement": "@` +
			strings.Repeat("ab", size/5) + `", "values": {"` + strings.Repeat("ba", size/5) +
			`": 1}}}`,
		"a value in many places": `{"name": "a", "handler": "http", "params": {"url": ` +
			`"http://a/", "body": "` + strings.Repeat("{{a}}", size/11) + `", "values": {"a": "` +
			strings.Repeat("b", size/2) + `"}}}`,
	}
	var slowest time.Duration
	refused := 0
	measure := func(what string, q request) {
		q.token = operatorToken
		const limit = 2 * time.Second
		answer := g.ask(q)
		for try := 1; try < 3 && answer.took > limit; try++ { // a busy machine may pause
			answer = g.ask(q)
		}
		slowest = max(slowest, answer.took)
		if answer.took > limit {
			a.Errorf("%s: %s, and no faster in other tries", what, answer.took)
		}
		if answer.status/100 == 4 {
			refused++
		} else {
			a.Errorf("%s: %d %.200s", what, answer.status, answer.body)
		}
	}
	for what, text := range texts {
		measure(what, request{path: "/api/v1/jobs", json: `{"reason": "x", "job": ` + text + `}`})
	}
	for what, text := range map[string]string{
		"folded blanks": "name: a\nhandler: sql\nparams:\n  statement: >\n    x" +
			strings.Repeat("\n    ", size/5),
		"blank lines":    "name: a" + strings.Repeat("\n ", size/2) + "x",
		"nested flow":    "a: " + strings.Repeat("{a: ", size/4),
		"anchors":        "a: &a [x]\n" + strings.Repeat("b: *a\n", size/6),
		"unclosed quote": "name: \"" + strings.Repeat("\\x41", size/4),
	} {
		form := map[string][]string{"job": {text}, "version": {"0"}, "reason": {"x"}}
		measure(what, request{path: "/add", form: form,
			header: map[string]string{"Origin": g.URL}})
	}
	a.report("%d hostile texts of 63 KB as JSON and YAML: all refused, the slowest in %d ms",
		refused, slowest.Milliseconds())
}

// quoted returns a text as a string of JSON.
func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can always be encoded
	}
	return string(encoded)
}
