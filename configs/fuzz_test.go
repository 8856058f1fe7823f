package configs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// Parse either accepts a file, which is then complete and can be shown as JSON, or refuses it by
// *Errors with positions that exist in the file. Both are fast: on a slow machine they may take
// longer, but not three times as long as a file of ordinary jobs.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"embedded.yaml", "cluster.yaml", "reference.yaml",
		filepath.Join("testdata", "mistakes.yaml")} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{
		"a: &a [*a]", "<<: *a", "<<: [{a: 1}]", "? [a]\n: b", "&a a: *a",
		"jobs: [{<<: &x {name: a}}]", "${A}", "a: |\n", "a: >-\n\n b",
		"- - -", "{{{", "!!a b", "%YAML 1.1\n---\n", "\t", "a:\r\n b: 1\r\n", "'\"",
		"jobs: [{params: {a: 0x, b: 0o8, c: 1e999, d: -.inf}}]",
		"calendars: [{name: h, exclude: {dates: [12-24, x], weekdays: [fri-mon], windows: " +
			"['22:00-06:00'], cron: ['* 9 * * *'], files: [testdata/holidays.ics, '', " +
			"/]}}]\njobs: [{name: a, schedule: {every: 2 weeks, at: 02:30, on: tue, from: " +
			"2026-01-05}, calendars: [h], jitter: 1s}]",
		"jobs: [{name: a, schedule: {after: [b, 'c d', a]}}, {name: b, schedule: " +
			"'after:\"a\",b', clock_changes: {gap: skip}}, {name: c, schedule: {quartz: 0 0 12 ? " +
			"* 6#3}}]",
	} {
		f.Add([]byte(text))
	}
	ordinary := ordinaryJobs()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		var c *Config
		var err error
		speedtest.WithinOrLike(t, "parse", 100*time.Millisecond,
			func() { mustParse(t, ordinary) }, func() { c, err = parse(string(data)) })
		var all *Errors
		switch {
		case err == nil:
			if c.Replica.Name == "" || !json.Valid([]byte(c.String())) {
				t.Errorf("got %s", c)
			}
		case !errors.As(err, &all) || len(all.Problems) == 0:
			t.Errorf("got %v, want *Errors", err)
		default:
			lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
			for _, p := range all.Problems {
				if p.Line < 1 || p.Line > lines && p.File == "c.yaml" || p.Column < 1 ||
					p.Message == "" || strings.ContainsAny(p.String(), "\n\r") {
					t.Errorf("got %q in a file of %d lines", p.String(), lines)
				}
			}
		}
	})
}

// FuzzExpand compares expand with a regular expression for the text after ${.
func FuzzExpand(f *testing.F) {
	variable := regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	for _, text := range []string{"${A}", "a$${A}b${B:-c}", "${A:-${B}}", "${A", "${1}", "${A:-",
		"$$${A}", "${é}", "${A:}", "${}", "${A}}${B", "${A:-x${B}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, _, faults := expand(text,
			environment{lookup: func(name string) (string, bool) { return "<" + name + ">", true }})
		var want strings.Builder
		wrong := 0
		for rest := text; ; {
			before, after, more := strings.Cut(rest, "${")
			if before, escaped := strings.CutSuffix(before, "$"); more && escaped {
				want.WriteString(before + "${")
				rest = after
				continue
			}
			if want.WriteString(before); !more {
				break
			}
			rest = after
			switch match := variable.FindStringSubmatch(rest); {
			case match == nil:
				wrong++
			case strings.Contains(match[3], "${"):
				wrong++
				rest = rest[len(match[0]):]
			default:
				want.WriteString("<" + match[1] + ">")
				rest = rest[len(match[0]):]
			}
		}
		if found != want.String() || len(faults) != wrong {
			t.Errorf("%q: found %q with %d mistakes, expected %q with %d", text, found, len(faults),
				want.String(), wrong)
		}
	})
}

// The text is a single job, as operators add it at run time. It is either refused, or its stored
// text parses to the same job. Both take at most ten milliseconds. The same holds for placeholders,
// durations, delays and policies.
func FuzzParseJob(f *testing.F) {
	for _, text := range []string{
		`{name: a, schedule: "*/5 * * * *", handler: own, params: {account: acme, n: 7}, tables: [orders, "events_{account}", "s{n}.t"], read_tables: [Rates]}`,
		`{name: a, schedule: {every: 90s}, handler: own, timeout: 1h30m, jitter: 20s, deadline: 1.5h, retry: {attempts: 3, delay: 10s, backoff: exponential, max_delay: 1m, jitter: 0.2}}`,
		`{name: a, schedule: {after: [b, c]}, handler: own, overlap: queue, priority: 9, group: night, misfire: {no_replica: run_all, paused: skip, lock_held: run_once, limit: 7, max_age: 3h}}`,
		`{name: a, schedule: {every: 1 month, at: "02:30", on: "1,last", from: 2026-01-31}, handler: own, timezone: Europe/Berlin, clock_changes: {gap: skip, twice: both}}`,
		`{name: a, schedule: "quartz:0 0 12 L-3W * ?", handler: own, resources: [{name: "vendor/{a}", slots: 5}], params: {a: "x y"}, wait: {attempts: 5, delay: 500ms}}`,
		`{name: a, schedule: {at: 2026-03-29T02:30:00Z}, handler: own, recover: true, misfire_threshold: 90s}`,
		`{name: "{a}", schedule: "after:\"b c\"", params: {a: ["{", "}"]}, tables: ["{a", "}", "{}", "{a}{a}"]}`,
	} {
		f.Add(text)
	}
	c := mustParse(f, `{timezone: UTC}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		read := func(text string) (*Job, error) {
			return c.ParseJob("job", []byte(text), WithEnv(noEnv))
		}
		speedtest.Within10ms(t, text, func() { _, _ = read(text) })
		job, err := read(text)
		if err != nil {
			return
		}
		kept, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(string(kept))
		if err != nil || again.String() != job.String() ||
			!reflect.DeepEqual(again.Requests, job.Requests) ||
			again.Schedule.Fingerprint() != job.Schedule.Fingerprint() {
			t.Errorf("%q is kept as %s and read as %s: %v", text, kept, again, err)
		}
	})
}

// These texts would need much time or memory without limits.
func TestHugeNestingAndAliases(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("jobs:\n  - name: a\n    handler: command\n    params:\n      command:\n    " +
		"    - &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		at := func(n int) string { return string(rune('0' + n)) }
		bomb.WriteString("        - &a" + at(i+1) + " [" +
			strings.TrimSuffix(strings.Repeat("*a"+at(i)+", ", 10), ", ") + "]\n")
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 100_000), "braces": strings.Repeat("{a: ", 100_000),
		"dashes":    strings.Repeat("- ", 100_000),
		"questions": strings.Repeat("? ", 100_000), "bomb": bomb.String(),
		"size": strings.Repeat("#", maxFile+1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(text)
			var all *Errors
			if !errors.As(err, &all) {
				t.Errorf("got %v, want *Errors", err)
			}
		})
	}
}
