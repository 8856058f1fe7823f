package configs

import (
	"fmt"
	"strings"
	"testing"
)

func TestTracing(t *testing.T) {
	c, err := parse("tracing: {endpoint: 'http://127.0.0.1:4318', headers: [{name: " +
		"Authorization, value: Bearer hunter2}]}")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tracing; got.Endpoint != "http://127.0.0.1:4318/v1/traces" || got.Sample != 1 ||
		got.ServiceName != "holdfast" || got.Link != "" {
		t.Errorf("defaults: %+v", got)
	}
	if strings.Contains(fmt.Sprintf("%+v %s", c.Tracing, c), "hunter2") {
		t.Error("text of the configuration: got one with a secret, want it redacted")
	}
	if c, err = parse("tracing: {endpoint: 'https://c/otlp/traces', sample: 0.25, link: " +
		"'https://tempo/t/{trace_id}?a=b'}"); err != nil ||
		c.Tracing.Endpoint != "https://c/otlp/traces" || c.Tracing.Sample != 0.25 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err = parse(""); err != nil || c.Tracing != nil || c.Metrics.Names != 200 {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
}

func TestObservationMistakes(t *testing.T) {
	const good = "endpoint: 'http://c'"
	const web = "expected an http:// or https:// URL such as http://127.0.0.1:4318/v1/traces"
	const notShown = "a user or a query in the URL (it is not shown), expected an http:// or " +
		"https:// URL without them: set what the collector needs in tracing.headers"
	for _, test := range []struct{ name, text, want string }{
		{"no endpoint", "tracing: {sample: 1}", "1:10: tracing.endpoint: found nothing, " + web},
		{"no URL", "tracing: {endpoint: 'collector:4318'}",
			`1:21: tracing.endpoint: found "collector:4318", ` + web},
		{"another scheme", "tracing: {endpoint: 'grpc://collector:4317'}",
			`1:21: tracing.endpoint: found "grpc://collector:4317", ` + web},
		{"a user", "tracing: {endpoint: 'http://anna:hunter2@c/v1/traces'}",
			"1:21: tracing.endpoint: found " + notShown},
		{"a query", "tracing: {endpoint: 'https://c/v1/traces?key=hunter2'}",
			"1:21: tracing.endpoint: found " + notShown},
		{"a user with an invalid password", "tracing: {endpoint: 'http://bob:hunter2%ss@c:4318'}",
			"1:21: tracing.endpoint: found a value with @, ? or # (it is not shown), " + web},
		{"a link with a password", "tracing: {" + good + ", link: 'https://bob:hunter2@c/'}",
			`1:39: tracing.link: found a value with @, ? or # (it is not shown), expected`},
		{"unknown key", "tracing: {endpont: 'http://c'}",
			`1:11: tracing.endpont: unknown key; did you mean "endpoint"?`},
		{"unknown section", "tracng: {" + good + "}",
			`1:1: tracng: unknown key; did you mean "tracing"?`},
		{"a share above 1", "tracing: {" + good + ", sample: 10}",
			`1:41: tracing.sample: found 10, expected a number, 0 to 1`},
		{"a share as text", "tracing: {" + good + ", sample: all}",
			`1:41: tracing.sample: found "all", expected a number, 0 to 1`},
		{"no name", "tracing: {" + good + ", service_name: ''}",
			`1:47: tracing.service_name: found "", expected ` + nameWords},
		{"a link without the trace", "tracing: {" + good + ", link: 'https://tempo/{id}'}",
			`1:39: tracing.link: found "https://tempo/{id}", expected an http:// or https:// URL with {trace_id} in it`},
		{"a link that is none", "tracing: {" + good + ", link: 'tempo/{trace_id}'}",
			`1:39: tracing.link: found "tempo/{trace_id}", expected an http:// or https:// URL with {trace_id} in it`},
		{"a script", "tracing: {" + good + ", link: 'javascript://h/{trace_id}'}",
			`1:39: tracing.link: found "javascript://h/{trace_id}", expected an http:// or https:// URL with {trace_id} in it`},
		{"a header", "tracing: {" + good + ", headers: [{name: 'a b', value: hunter2}]}",
			`1:50: tracing.headers[0].name: found "a b", expected the name of an HTTP header`},
		{"a header's value", "tracing: {" + good + ", headers: [{name: a, value: \"hunter2\\n\"}]}",
			`1:60: tracing.headers[0].value: found a value with control characters (it is not shown), expected one line`},
		{"no mapping", "tracing: on",
			`1:10: tracing: found text, expected a mapping of keys to values`},
		{"names", "metrics: {names: -1}",
			`1:18: metrics.names: found -1, expected a whole number, 0 to 10000`},
		{"a role of users", "admin: {users: [{name: a, role: metrics, password_hash: '" + hash + "'}]}",
			`admin.users[0].role: unknown role "metrics"; expected one of viewer, trigger, operator`},
		{"a role of tokens", "admin: {tokens: [{name: a, role: metric, token_hash: x}]}",
			`admin.tokens[0].role: unknown role "metric"; did you mean "metrics"?`},
	} {
		_, err := parse(test.text)
		if got := fmt.Sprint(err); !strings.Contains(got, test.want) ||
			strings.Contains(got, "hunter2") {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}
