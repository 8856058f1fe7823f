package configs

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/locking"
)

// builtins simulates the built-in handlers: the params that each accepts.
type builtins map[string][]string

func (b builtins) Names() []string { return []string{"command", "http", "sql"} }

func (b builtins) ParamNames(handler string) []string { return b[handler] }

func (b builtins) Check(handler string, params json.RawMessage) []ParamProblem {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(params, &given); err != nil {
		return []ParamProblem{{Message: err.Error()}}
	}
	var problems []ParamProblem
	for key := range given {
		if !slices.Contains(b[handler], key) {
			problems = append(problems, ParamProblem{Key: key, Message: "unknown key"})
		}
	}
	return problems
}

func withBuiltins() Option {
	return WithHandlers(builtins{
		"sql":     {"statement", "statements", "args"},
		"http":    {"url", "method", "headers", "body", "expect_status", "timeout", "follow_redirects"},
		"command": {"command", "dir", "env"},
	})
}

func noEnv(string) (string, bool) { return "", false }

func mustLoad(t *testing.T, path string) *Config {
	t.Helper()
	c, err := Load(path, withBuiltins(), WithEnv(noEnv))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReferenceIsTheDefaults(t *testing.T) {
	c := mustLoad(t, "reference.yaml")
	want := Defaults()
	got := *c
	got.Jobs, got.Replica, got.read = nil, Replica{}, false
	got.begun, got.folder = want.begun, want.folder
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reference.yaml differs from the defaults:\n%s",
			cmp.Diff(want.String(), got.String()))
	}
	var job Job
	job.start(&want)
	example := c.Jobs[0]
	if example.Name != "example" || example.Handler != "sql" {
		t.Errorf("the example job is %s", example)
	}
	job.Name, job.Handler, job.Params = example.Name, example.Handler, example.Params
	if job.String() != example.String() {
		t.Errorf("the example job differs from a job's defaults:\n%s",
			cmp.Diff(job.String(), example.String()))
	}
}

// The test enables the keys of reference.yaml that have no default. Its keys are then exactly those
// of the schema. The defaults within optional sections are right too.
func TestReferenceHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	full := regexp.MustCompile(`(?m)^( *)#(\S)`).ReplaceAll(text, []byte("$1$2"))
	if bytes.Equal(full, text) {
		t.Fatal("got no key that is turned off")
	}
	d := newDocument("reference.yaml")
	tree := d.buildTree(d.parseYAML(full), string(full), environment{lookup: noEnv})
	if err := d.err(); err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`\[\d+\]`)
	found := map[string]bool{}
	for path := range d.places {
		if path != "" && !strings.HasSuffix(path, "]") && !strings.Contains(path, "].params.") {
			found[index.ReplaceAllString(path, "[]")] = true
		}
	}
	schema := map[string]bool{}
	schemaKeys(reflect.TypeFor[Config](), "", schema)
	if diff := cmp.Diff(schema, found); diff != "" {
		t.Errorf("keys of the schema (-) and of reference.yaml (+) differ:\n%s", diff)
	}

	config := Defaults()
	dec := &decoder{document: d, config: &config}
	dec.decode(tree, reflect.ValueOf(&config).Elem(), "", "")
	var memcached Memcached
	memcached.start(&config)
	memcached.Servers, memcached.TLS = []string{"127.0.0.1:11211"}, &TLS{}
	if config.Locking.Memcached == nil || !reflect.DeepEqual(*config.Locking.Memcached, memcached) {
		t.Errorf("memcached: got %+v, want the defaults %+v", config.Locking.Memcached,
			memcached)
	}
	// Other mistakes are alternatives that exclude each other, and files that do not exist.
	if _, err := parse(string(full)); err == nil || strings.Contains(err.Error(), "empty list") {
		t.Errorf("all keys together: got %v, want mistakes without empty lists", err)
	}
}

func schemaKeys(t reflect.Type, path string, out map[string]bool) {
	for _, f := range fieldsOf(t).list {
		at := keyPath(path, f.key)
		out[at] = true
		inner := t.Field(f.index).Type
		if inner.Kind() == reflect.Slice {
			inner, at = inner.Elem(), at+"[]"
		}
		if inner.Kind() == reflect.Map {
			inner, at = inner.Elem(), keyPath(at, "warehouse")
			out[at] = true
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch inner {
		case secretType, paramsType, timeType, forEachType:
			continue
		case specType:
			inner = reflect.TypeFor[scheduleKeys]()
		}
		if inner.Kind() == reflect.Struct {
			schemaKeys(inner, at, out)
		}
	}
}

func TestEmbedded(t *testing.T) {
	c := mustLoad(t, "embedded.yaml")
	if path, ok := c.Database.SQLite(); !ok || path != "holdfast.db" {
		t.Errorf("database: got %q, %v", path, ok)
	}
	if c.Locking.Memcached != nil {
		t.Errorf("embedded.yaml: got memcached %+v, want none", c.Locking.Memcached)
	}
	if c.Admin.Listen != "127.0.0.1:8080" {
		t.Errorf("admin.listen: got %s", c.Admin.Listen)
	}
	soon := time.Now().Add(time.Minute)
	for _, j := range c.Jobs {
		if next := j.Schedule.Next(time.Now()); next.IsZero() || next.After(soon) {
			t.Errorf("%s: got scheduled time %v, want one within a minute", j.Name, next)
		}
	}
	if !contend(c.Jobs, "export-totals", "rollup-events") ||
		!contend(c.Jobs, "record-events", "prune-events") {
		t.Error("got no conflict of export-totals with rollup-events, or of record-events with " +
			"prune-events; want both")
	}
}

func contend(jobs []Job, a, b string) bool {
	var one, other []locking.Request
	for _, j := range jobs {
		switch j.Name {
		case a:
			one = j.Requests
		case b:
			other = j.Requests
		}
	}
	for _, r := range one {
		if slices.ContainsFunc(other,
			func(s locking.Request) bool { return locking.Conflict(r, s) }) {
			return true
		}
	}
	return false
}

func TestCluster(t *testing.T) {
	c := mustLoad(t, "cluster.yaml")
	if _, ok := c.Database.SQLite(); ok || c.Locking.Memcached == nil {
		t.Errorf("cluster.yaml: got SQLite %v and memcached %+v, want PostgreSQL and memcached",
			ok, c.Locking.Memcached)
	}
	if c.Replica.Name == "" {
		t.Error("got an empty name of the replica, want a drawn one")
	}
	env := map[string]string{"DATABASE_URL": "postgres://a:b@h/d", "REPLICA_NAME": "one",
		"MEMCACHED": "cache:11211"}
	c, err := Load("cluster.yaml", WithEnv(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c.Database.URL.Reveal() != env["DATABASE_URL"] || c.Replica.Name != "one" ||
		c.Locking.Memcached.Servers[0] != "cache:11211" {
		t.Errorf("variables were not taken: %s", c)
	}
}
