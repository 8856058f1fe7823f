package configs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const hook = "webhooks:\n  - {name: w, url: 'https://h/?t=hunter2', secret: 'hunter2 hunter2 " +
	"hunter2 hunter2', "

func TestWebhook(t *testing.T) {
	c, err := parse(hook + "jobs: ['night-*', b], headers: [{name: Authorization, value: Bearer " +
		"hunter2}]}\njobs: [{name: b, handler: sql}]")
	if err != nil {
		t.Fatal(err)
	}
	w := c.Webhooks[0]
	if w.Timeout != 10*time.Second || w.Retry.Elapsed != 24*time.Hour ||
		strings.Join(w.Events, " ") != "failed timed_out lost missed" {
		t.Errorf("defaults: %+v", w)
	}
	if strings.Contains(fmt.Sprintf("%+v %#v %s", w, w, c), "hunter2") {
		t.Error("text of the configuration: got one with a secret, want it redacted")
	}
	if keys, ok := w.SigningKeys(); !ok || len(keys) != 1 ||
		string(keys[0]) != "hunter2 hunter2 hunter2 hunter2" {
		t.Errorf("keys %q, %v", keys, ok)
	}
	w.OldSecret = w.Secret
	w.Secret = NewSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
	if keys, ok := w.SigningKeys(); !ok || len(keys) != 2 ||
		string(keys[0]) != "0123456789abcdef01234567" ||
		string(keys[1]) != "hunter2 hunter2 hunter2 hunter2" {
		t.Errorf("keys %q, %v", keys, ok)
	}
}

// A literal host that the target rules refuse is a mistake. A name is none, because only its
// address could be refused.
func TestTargets(t *testing.T) {
	job := func(url string) string {
		return "\njobs:\n  - {name: a, handler: http, params: {url: '" + url + "'}}"
	}
	const deny, allow = "handlers: {http: {deny: [\"*.corp\", 10.0.0.0/8]}}",
		"handlers: {http: {allow: [api.example.com, 169.254.169.254]}}"
	for _, test := range []struct{ text, want string }{
		{deny + job("http://db.corp/x?t=hunter2"), "c.yaml:3:44: jobs[0].params.url: target db.corp refused: it is in handlers.http.deny"},
		{deny + job("http://10.1.2.3/"), "c.yaml:3:44: jobs[0].params.url: target 10.1.2.3 refused: it is in handlers.http.deny"},
		{deny + job("http://example.com/"), ""},
		{allow + job("http://169.254.169.254/"), ""},
		{"workers: 1" + job("http://[fe80::1]/"), "c.yaml:3:44: jobs[0].params.url: target fe80::1 refused: link-local addresses and metadata services of clouds are not for jobs, unless handlers.http.allow has their address"},
		{"workers: 1" + job("http://${SET}/"), "c.yaml:3:44: jobs[0].params.url: found a host (it is not shown) that handlers.http refuses, or that is link-local"},
		{strings.Replace(hook, "//h/", "//169.254.1.1/", 1) + "}", "c.yaml:2:20: webhooks[0].url: found a host (it is not shown) that handlers.http refuses, or that is link-local"},
		{"handlers: {http: {allow: ['http://a'], deny: [10.0.0.1/8]}}", `c.yaml:1:27: handlers.http.allow[0]: found "http://a", expected a host such as api.example.com or *.example.com, an address, or a network such as 10.1.0.0/16
c.yaml:1:47: handlers.http.deny[0]: found "10.0.0.1/8", expected a host such as api.example.com or *.example.com, an address, or a network such as 10.1.0.0/16`},
	} {
		_, err := parse(test.text, WithEnv(func(string) (string, bool) {
			return "169.254.9.9", true
		}))
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: found %v, expected %s", test.text, err, test.want)
		}
	}
	c := mustParse(t, deny)
	_, err := parseJob(c, `{"name": "a", "handler": "http", "params": {"url": "http://db.corp"}}`)
	if err == nil || !strings.Contains(err.Error(), "params.url: target db.corp refused") {
		t.Errorf("an added job: %v", err)
	}
}

func TestPatternsOfWebhooks(t *testing.T) {
	for _, test := range []struct {
		patterns, name string
		want           bool
	}{
		{"", "any/job.x", true}, {"a", "a", true}, {"a", "ab", false}, {"*", "a/b", true},
		{"a*", "a", true}, {"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*c", "ac", true}, {"a*c", "a/b.c", true},
		{"a*c", "acd", false}, {"a*a", "a", false},
		{"*b*c*", "abcd", true}, {"*b*c*", "acbd", false}, {"a*b*b", "ab", false},
		{"a**b", "ab", true}, {"x,a*", "ab", true}, {"x,y*", "ab", false},
	} {
		w := Webhook{}
		if test.patterns != "" {
			w.Jobs = strings.Split(test.patterns, ",")
		}
		if got := w.Covers(test.name); got != test.want {
			t.Errorf("%q covers %q: got %v", test.patterns, test.name, got)
		}
	}
}

func TestWebhookMistakes(t *testing.T) {
	const good = "url: 'https://h', secret: 'hunter2 hunter2 hunter2 hunter2'"
	const secret = "expected whsec_ and 24 to 64 bytes in base64, or a text of 24 bytes or more"
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "webhooks: [{}]",
			"1:12: webhooks[0].name: found nothing, expected " + nameWords +
				"\nc.yaml:1:12: webhooks[0].url: found nothing, expected the URL that is " +
				"notified\nc.yaml:1:12: webhooks[0].secret: found no secret to sign with, " + secret},
		{"unknown key", "webhooks: [{name: w, " + good + ", event: [lost]}]",
			`1:83: webhooks[0].event: unknown key; did you mean "events"?`},
		{"twice", "webhooks: [{name: w, " + good + "}, {name: w, " + good + "}]",
			`1:91: webhooks[1].name: found "w" a second time, expected each webhook once; the first is in line 1`},
		{"no URL", "webhooks: [{name: w, url: 'hunter2.example/x', secret: '" +
			strings.Repeat("hunter2", 5) + "'}]", "1:27: webhooks[0].url: found something else " +
			"(it is not shown), expected an http:// or https:// URL without #"},
		{"another scheme", "webhooks: [{name: w, url: 'ftp://hunter2', secret: '" +
			strings.Repeat("hunter2", 5) + "'}]", "1:27: webhooks[0].url: found something else " +
			"(it is not shown), expected an http:// or https:// URL without #"},
		{"short secret", "webhooks: [{name: w, url: 'https://h', secret: hunter2}]",
			"1:48: webhooks[0].secret: found a secret that is too short or no base64 (it is not " +
				"shown), " + secret},
		{"no base64", "webhooks: [{name: w, url: 'https://h', secret: " +
			"whsec_hunter2-hunter2-hunter2-hunter2}]", "1:48: webhooks[0].secret: found a secret " +
			"that is too short or no base64 (it is not shown), " + secret},
		{"short old secret", hook + "old_secret: hunter2}", "2:99: webhooks[0].old_secret: found " +
			"a secret that is too short or no base64 (it is not shown), " + secret},
		{"secret that is not replaced", hook + "old_secret: 'hunter2 hunter2 hunter2 hunter2'}",
			"2:99: webhooks[0].old_secret: found the same as secret (it is not shown), expected " +
				"the one before it"},
		{"unknown event", hook + "events: [faild]}",
			`2:96: webhooks[0].events[0]: unknown event "faild"; did you mean "failed"?`},
		{"no event", hook + "events: [running]}",
			`2:96: webhooks[0].events[0]: unknown event "running"; expected one of succeeded, failed, timed_out, cancelled, lost, skipped, missed`},
		{"no events", hook + "events: []}", "2:95: webhooks[0].events: found no events, expected " +
			"some of succeeded, failed, timed_out, cancelled, lost, skipped, missed"},
		{"no jobs", hook + "jobs: []}", "2:93: webhooks[0].jobs: found no jobs, expected names " +
			"or patterns such as night-*; without the key it is notified of all jobs"},
		{"misspelt job", hook + "jobs: [rollp]}\njobs: [{name: rollup, handler: sql}]",
			`2:94: webhooks[0].jobs[0]: unknown job "rollp"; did you mean "rollup"?`},
		{"empty pattern", hook + "jobs: ['']}",
			`2:94: webhooks[0].jobs[0]: found "", expected a job's name or a pattern such as night-*`},
		{"long timeout", hook + "timeout: 2m}",
			`2:96: webhooks[0].timeout: found "2m", expected 1s to 1m`},
		{"endless retry", hook + "retry: {elapsed: 0s}}",
			"2:94: webhooks[0].retry.attempts: found 0, expected 1 or more, or a limit by elapsed"},
		{"bad header", hook + "headers: [{name: 'a b', value: hunter2}]}",
			`2:104: webhooks[0].headers[0].name: found "a b", expected the name of an HTTP header`},
		{"reserved header", hook + "headers: [{name: Webhook-Id, value: hunter2}]}",
			`2:104: webhooks[0].headers[0].name: found "Webhook-Id", which is set by the scheduler, expected another header`},
		{"two lines", hook + `headers: [{name: a, value: "hunter2\nb: c"}]}`,
			"2:114: webhooks[0].headers[0].value: found a value with control characters (it is " +
				"not shown), expected one line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(test.text, withBuiltins())
			if got := fmt.Sprint(err); got != "c.yaml:"+test.want {
				t.Errorf("got\n%s\nwant\nc.yaml:%s", got, test.want)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Error("message: got one with a secret, want it redacted")
			}
		})
	}
}
