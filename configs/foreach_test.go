package configs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// anyHandler accepts every handler.
var anyHandler = WithHandlers(nil)

func locksOf(j Job) string {
	var texts []string
	for _, r := range j.Requests {
		texts = append(texts, fmt.Sprintf("%s %s", r.Resource, r.Mode))
	}
	return strings.Join(texts, ", ")
}

func TestForEachCreatesAJobPerItem(t *testing.T) {
	c, err := parse(`
jobs:
  - name: rollup
    for_each: [acme, globex-2, 7]
    schedule: "@hourly"
    description: Sales of {item}
    handler: http
    tables: ["events_{item}"]
    read_tables: ["{item}.*"]
    resources: [{name: "vendor/{item}", slots: 2}, {name: "files/{item}"}]
    params: {url: "https://example.com/{item}?again={item}", headers: {x-account: "{item}", "{item}": "{other}"}, expect_status: [200, 204]}
  - {name: after, handler: sql, schedule: {after: [rollup.acme]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Jobs) != 4 {
		t.Fatalf("got %d jobs, want 4", len(c.Jobs))
	}
	for i, item := range []string{"acme", "globex-2", "7"} {
		j := c.Jobs[i]
		got := []string{j.Name, j.Description, locksOf(j), string(j.Params.JSON())}
		want := []string{
			"rollup." + item, "Sales of " + item,
			strings.ReplaceAll("path:files/{item} exclusive, slot:vendor/{item} slot, {item} "+
				"shared, public/events_{item} exclusive", "{item}", item),
			strings.ReplaceAll(
				`{"url":"https://example.com/{item}?again={item}","headers":{"x-account":"{item}","~":"{other}"},"expect_status":[200,204]}`, "{item}", item),
		}
		want[3] = strings.ReplaceAll(want[3], "~", "{item}") // keys are not replaced
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", item, diff)
		}
	}
}

func TestForEachWithAName(t *testing.T) {
	c, err := parse(`
jobs:
  - name: rollup
    for_each: {account: [acme, 7]}
    handler: sql
    tables: ["events_{account}"]
    params: {statement: "SELECT '{account}', '{item}'"}
`, WithHandlers(builtins{"sql": {"statement", "account"}}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`rollup.acme public/events_acme exclusive {"statement":"SELECT 'acme', '{item}'","account":"acme"}`,
		`rollup.7 public/events_7 exclusive {"statement":"SELECT '7', '{item}'","account":7}`,
	} {
		if got := c.Jobs[i].Name + " " + locksOf(c.Jobs[i]) + " " +
			string(c.Jobs[i].Params.JSON()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The effective configuration of for_each is the same as that of the expanded jobs.
func TestForEachRoundTrip(t *testing.T) {
	for _, each := range []string{"[acme, globex]", "{account: [acme, globex]}"} {
		name := "item"
		if strings.Contains(each, "account") {
			name = "account"
		}
		c, err := parse(strings.ReplaceAll(
			`jobs: [{name: a/b, for_each: `+each+`, handler: own, tables: ["t_{x}"], resources: [{name: "r/{x}"}], params: {text: "{x}"}}]`, "{x}", "{"+name+"}"), anyHandler)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range c.Jobs {
			again, err := parse(`{"jobs": [`+j.String()+`]}`, anyHandler)
			if err != nil {
				t.Fatalf("%v in %s", err, j)
			}
			if again.Jobs[0].String() != j.String() || locksOf(again.Jobs[0]) != locksOf(j) ||
				strings.Contains(j.String(), "for_each") {
				t.Errorf("got %s (%s), want %s (%s)", again.Jobs[0], locksOf(again.Jobs[0]),
					j, locksOf(j))
			}
		}
	}
}

func TestForEachShowsNoVariable(t *testing.T) {
	env := func(name string) (string, bool) { return "hunter2", name == "SET" }
	c, err :=
		parse(
			`jobs: [{name: a, for_each: ["x"], handler: own, params: {text: "{item} ${SET}"}}, {name: b, for_each: ["${SET}"], handler: own, params: {text: "an {item}"}}]`, WithEnv(env), anyHandler)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"x hunter2", "an hunter2"} {
		j := c.Jobs[i]
		if got := string(j.Params.JSON()); got != `{"text":"`+want+`"}` {
			t.Errorf("params %s", got)
		}
		if shown := j.Params.String(); strings.Contains(shown, "hunter2") {
			t.Errorf("shown as %s", shown)
		}
	}
}

func TestForEachMistakes(t *testing.T) {
	long := strings.Repeat("x", 197)
	many := strings.TrimSuffix(strings.Repeat("a, ", 1001), ", ")
	const jobs, two = "jobs:\n  - {name: a, handler: sql, for_each: ",
		"c.yaml:2:39: jobs[0].for_each"
	for _, test := range []struct{ name, text, want string }{
		{"no items", jobs + "[]}", two + ": found no items, expected at least one"},
		{"no items by name", jobs + "{account: []}}", "c.yaml:2:49: jobs[0].for_each.account: found no items, expected at least one"},
		{"too many", jobs + "[" + many + "]}", two + ": found 1001 items, expected at most 1000"},
		{"text", jobs + "acme}", two + ": found text, expected a list of items, or a mapping of one param's name to such a list"},
		{"text by name", jobs + "{account: acme}}", "c.yaml:2:49: jobs[0].for_each.account: found text, expected a list of items, or a mapping of one param's name to such a list"},
		{"two names", jobs + "{a: [x], b: [y]}}", two + ": found 2 keys, expected a list of items, or a mapping of one param's name to such a list"},
		{"no names", jobs + "{}}", two + ": found 0 keys, expected a list of items, or a mapping of one param's name to such a list"},
		{"a bad name", jobs + `{"a b": [x]}}`, `c.yaml:2:40: jobs[0].for_each."a b": found the param's name "a b", expected letters, digits, _ and -`},
		{"duplicates", jobs + `[acme, globex, "acme"]}`, `c.yaml:2:54: jobs[0].for_each[2]: found "acme" a second time, expected each item once; the first is in line 2`},
		{"a list as an item", jobs + "[a, [b]]}", "c.yaml:2:43: jobs[0].for_each[1]: found a list, expected one segment of letters, digits, _, - and ., that does not begin with - or ."},
		{"no item", jobs + "[a, ~]}", "c.yaml:2:39: jobs[0].for_each[1]: found nothing, expected one segment of letters, digits, _, - and ., that does not begin with - or ."},
		{"two segments", jobs + "[a/b]}", `c.yaml:2:40: jobs[0].for_each[0]: found "a/b", expected one segment of letters, digits, _, - and ., that does not begin with - or .`},
		{"for a shell", jobs + `["$(rm)"]}`, `c.yaml:2:40: jobs[0].for_each[0]: found "$(rm)", expected one segment of letters, digits, _, - and ., that does not begin with - or .`},
		{"a dot in a table", jobs + `[a, b.c], tables: ["t_{item}"]}`, `c.yaml:2:58: jobs[0].tables[0]: found the placeholder {item} for the param "b.c", expected one segment: not empty, without / . " or control characters, and not . or ..`},
		{"near miss", jobs + `{account: [x]}, tables: ["t_{acount}"]}`, "c.yaml:2:40: jobs[0].for_each.account: unknown key\nc.yaml:2:64: jobs[0].tables[0]: unknown placeholder {acount}, expected one of the job's params: account; did you mean {account}?"},
		{"a placeholder of another form", jobs + `{account: [x]}, tables: ["t_{item}"]}`, "c.yaml:2:40: jobs[0].for_each.account: unknown key\nc.yaml:2:64: jobs[0].tables[0]: unknown placeholder {item}, expected one of the job's params: account"},
		{"a param of the same name", jobs + `[x], params: {item: 5}}`, `c.yaml:2:53: jobs[0].params.item: found the param item, which is also each item of for_each, expected another name for one of them`},
		{"a job of the same name before", "jobs:\n  - {name: a.x, handler: sql}\n  - {name: a, handler: sql, for_each: [w, x]}", `c.yaml:3:43: jobs[1].for_each[1]: found "x", which makes "a.x" a second time, expected each job once; the first is in line 2`},
		{"a job of the same name behind", "jobs:\n  - {name: a, handler: sql, for_each: [w, x]}\n  - {name: a.x, handler: sql}", `c.yaml:3:12: jobs[1].name: found "a.x" a second time, expected each job once; the first is in line 2`},
		{"two lists that meet", "jobs:\n  - {name: a, handler: sql, for_each: [b.c]}\n  - {name: a.b, handler: sql, for_each: [c]}", `c.yaml:3:42: jobs[1].for_each[0]: found "c", which makes "a.b.c" a second time, expected each job once; the first is in line 2`},
		{"a long name", "jobs:\n  - {handler: sql, for_each: [bc, bcd], name: " + long + "}", `c.yaml:2:35: jobs[0].for_each[1]: found "bcd", which makes a job's name of 201 bytes, expected at most 200`},
		{"one mistake of all", "jobs:\n  - {name: a, handler: sqll, for_each: [w, x, y]}", `c.yaml:2:24: jobs[0].handler: unknown handler "sqll"; did you mean "sql"?`},
		{"misspelt", "jobs:\n  - {name: a, handler: sql, foreach: [w]}", `c.yaml:2:29: jobs[0].foreach: unknown key; did you mean "for_each"?`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(test.text, withBuiltins())
			if got := fmt.Sprint(err); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
