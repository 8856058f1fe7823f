package configs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// A user who may write 64 KB of a configuration, or add a job of that size, cannot keep a replica
// busy with it: the time grows with the size of the text, and not faster.
func TestHostileTextsAreFast(t *testing.T) {
	size := (64 << 10) / soak.Pick(4, 1)
	linear := func(name string, texts func(size int) map[string]string, read func(text string)) {
		small := texts(size / speedtest.Times)
		for of, text := range texts(size) {
			t.Run(name+of, func(t *testing.T) {
				speedtest.Linear(t, func() { read(small[of]) }, func() { read(text) })
			})
		}
	}
	linear("", hostileTexts, func(text string) { _, _ = parse(text) })
	c := mustParse(t, "{timezone: UTC}")
	linear("added/", hostileJobs, func(text string) {
		_, _ = c.ParseJob("job", []byte(text), WithEnv(noEnv))
	})
}

// repeatTo repeats a part until the text has the size.
func repeatTo(size int, before, part, after string) string {
	return before + strings.Repeat(part, (size-len(before)-len(after))/len(part)) + after
}

// hostileJobs returns jobs of this size, in bytes, by their names.
func hostileJobs(size int) map[string]string {
	return map[string]string{
		"open variables": repeatTo(size, `{name: "`, "${A", `"}`),
		"tables":         repeatTo(size, "{tables: [", "a,", "]}"),
		"blank lines":    repeatTo(size, "name: >\n  a\n", "\n", "handler: x\n"),
	}
}

// hostileTexts returns configurations of this size, in bytes, by their names.
func hostileTexts(size int) map[string]string {
	text := func(before, part, after string) string { return repeatTo(size, before, part, after) }
	named := func(part, end string) string { return text("replica:\n  name: 'x", part, end) }
	job := func(key, part, end string) string {
		return text(
			"jobs:\n  - name: a\n    handler: command\n    params: {command: [x]}\n    "+key,
			part, end+"\n")
	}
	webhook := func(key, part, end string) string {
		return text("webhooks: [{name: a, url: 'http://a', secret: 'x', "+key, part, end+"}]\n")
	}
	blank := strings.Repeat("\n", maxBlankLines)
	return map[string]string{
		"open variables":             named("${A", "'"),
		"open variables in lines":    named("\n    ${A", "'"),
		"open variables in a list":   text("jobs: [", "'${A',", "]"),
		"open variables after é":     named("é${A", "'"),
		"open defaults":              named("${A:-", "'"),
		"open defaults with an end":  named("${A:x", "}'"),
		"unset variables":            named("${A}", "'"),
		"literal ${":                 named("$${A", "'"),
		"dollars":                    named("$", "'"),
		"blank lines in a fold":      text("replica:\n  name: >\n    a\n", "\n", "    b\n"),
		"blank lines after a fold":   text("replica:\n  name: >\n    a\n", "\n", "  b: c\n"),
		"blank lines after a strip":  text("replica:\n  name: >-\n    a\n", "\n", "  b: c\n"),
		"blanks after a literal":     text("replica:\n  name: |\n    a\n", " \r\n", "  b: c\n"),
		"returns after a literal":    text("replica:\n  name: |\n    a\n", " \r", "  b: c\n"),
		"few blank lines, long fold": text("a: >\n", "  aaaaaaaaa\n", blank+"b: c\n"),
		"folds with blank lines":     text("", "- |\n a\n"+blank, "b"),
		"spaces in a fold":           text("replica:\n  name: >\n    a", " ", "\n"),
		"lines of a plain text":      text("replica:\n  name: a\n", "    b\n", ""),
		"quotes":                     text("replica:\n  name: 'a", "''", "'\n"),
		"escapes":                    text("replica:\n  name: \"a", "\\u0041", "\"\n"),
		"one key":                    text("", "a: b\n", ""),
		"one key of a list item":     text("- a: b\n", "  a: b\n", ""),
		"one key in braces":          text("jobs: {", "a: 1,", "}"),
		"unknown keys":               numbered(size, "", "w%d: 1\n", ""),
		"texts for jobs":             text("jobs: [", "a,", "]"),
		"nothing for jobs":           text("jobs:\n", "-\n", ""),
		"jobs without keys":          text("jobs:\n", "- {}\n", ""),
		"jobs after unknown ones": numbered(size, "jobs:\n",
			"- {name: j%[1]d, handler: own, schedule: {after: [k%[1]d]}}\n", ""),
		"aliases":                  text("jobs: [&a x, ", "*a, ", "]"),
		"anchors":                  text("", "&a ", ""),
		"merges":                   text("jobs: [{", "<<: {a: b}, ", "}]"),
		"a merge of many":          text("jobs: [{<<: [", "{a: b}, ", "]}]"),
		"brackets":                 text("", "[", ""),
		"braces":                   text("", "{a: ", ""),
		"dashes":                   text("", "- ", ""),
		"question marks":           text("", "? ", ""),
		"colons":                   text("", ": ", ""),
		"documents":                text("", "---\n", ""),
		"comments":                 text("", "#\n", ""),
		"directives":               text("", "%", ""),
		"a long key":               text("", "k", ": 1"),
		"a long number":            text("workers: ", "1", ""),
		"a long duration":          text("shutdown_grace: ", "1h", ""),
		"a long handler":           job("x: 1\n    overlap: ", "c", ""),
		"a long table":             job(`tables: ["`, "a.", `"]`),
		"quotes in a table":        job("tables: ['", `"`, "']"),
		"slashes in a table":       job("tables: ['", "/", "']"),
		"braces in a table":        job("tables: ['", "{", "']"),
		"placeholders":             job("tables: ['", "{command}", "']"),
		"tables":                   job("tables: [", "a,", "]"),
		"resources":                job("resources: [", "{name: a},", "]"),
		"calendars of a job":       job("calendars: [", "a,", "]"),
		"a zone":                   job("timezone: ", "a/", ""),
		"a list in cron":           job("schedule: '", "1,", "1 * * * *'"),
		"fields of cron":           job("schedule: '*", " *", "'"),
		"days of Quartz":           job("schedule: {quartz: '0 0 12 ? * ", "6#3,", "1'}"),
		"a list in Quartz":         job("schedule: {quartz: '0 0 12 ", "1,", "1 * ?'}"),
		"words":                    job("schedule: '", "every ", "'"),
		"weekdays in words":        job("schedule: 'every 20m on ", "mon,", "tue'"),
		"days in words":            job("schedule: {every: 1 month, at: '02:30', on: '", "1,", "2'}"),
		"dependencies":             job("schedule: {after: [", "b,", "c]}"),
		"quotes in dependencies":   job("schedule: 'after:", `"`, "c'"),
		"items":                    job("for_each: [", "a,", "]"),
		"dates":                    text("calendars: [{name: a, exclude: {dates: [", "12-24,", "]}}]"),
		"a date":                   text("calendars: [{name: a, exclude: {dates: ['", "1", "']}}]"),
		"windows":                  text("calendars: [{name: a, exclude: {windows: [", "'1:00-2:00',", "]}}]"),
		"crons":                    text("calendars: [{name: a, exclude: {cron: [", "'* 1 * * *',", "]}}]"),
		"events of a webhook":      webhook("events: [", "a,", "]"),
		"jobs of a webhook":        webhook("jobs: [", "a,", "]"),
		"a pattern of a webhook":   webhook("jobs: ['", "*j", "']"),
		"headers of a webhook":     webhook("headers: [", "{name: a, value: b},", "]"),
		"users":                    text("admin: {users: [", "{name: a},", "]}"),
		"networks":                 text("admin: {trusted_proxy: {networks: [", "1.1.1.1,", "]}}"),
		"memcached servers":        text("locking: {memcached: {servers: [", "'a:1',", "]}}"),
		"a surrogate without half": text("replica:\n  name: \"", `\ud800`, "\"\n"),
	}
}

// ordinaryJobs returns a file of 60 KB with jobs as users write them.
func ordinaryJobs() string {
	return numbered(60<<10, "jobs:\n", "- {name: j%[1]d, handler: sql, schedule: '@daily', "+
		"tables: [t%[1]d], params: {statement: SELECT 1}}\n", "")
}

// numbered repeats a part with an increasing number until the text has the size.
func numbered(size int, before, part, after string) string {
	var out strings.Builder
	out.WriteString(before)
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(&out, part, i)
	}
	return out.String() + after
}

func TestCaps(t *testing.T) {
	keys := numbered(60<<10, "jobs:\n  - name: a\n    params:\n", "      p%d: 1\n", "")
	for name, test := range map[string]struct{ text, want string }{
		"keys": {keys, "c.yaml:1004:7: not valid YAML: more than 1000 keys in one mapping"},
		"items": {"admin: {hosts: [" + strings.Repeat("a,", maxListed+1) + "]}",
			"c.yaml:1:20018: not valid YAML: more than 10000 items in one list"},
		"lines": {"jobs:\n" + strings.Repeat("- a: 1\n  b: 2\n", maxListed+1),
			"c.yaml:20002:1: not valid YAML: more than 10000 items in one list"},
		"blank lines": {"timezone: UTC\n" + strings.Repeat(" \n", maxBlankLines+1) + "workers: 1\n",
			"c.yaml:52:1: found more than 50 blank lines in a row, expected fewer"},
	} {
		_, err := parse(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: found %.300v, expected %s", name, err, test.want)
		}
	}
	fine := "timezone: UTC\n" + strings.Repeat("\n", maxBlankLines) + "workers: 1\n"
	if _, err := parse(fine); err != nil {
		t.Errorf("blank lines: found %v", err)
	}
	_, err := parse("jobs:\n" + strings.Repeat("- a\n", maxProblems+50))
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "c.yaml:202:3: jobs[200]: found more "+
		"than 200 mistakes, the others are not listed" {
		t.Errorf("found %d lines, the last %s", len(lines), lines[len(lines)-1])
	}
}
