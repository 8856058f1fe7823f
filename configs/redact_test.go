package configs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// quoting is a handler whose errors quote all params.
type quoting struct{}

func (quoting) Names() []string { return []string{"quoting"} }

func (quoting) ParamNames(string) []string { return nil }

func (quoting) Check(_ string, params json.RawMessage) []ParamProblem {
	return []ParamProblem{{Key: "a", Message: fmt.Sprintf("found %q in %s", params, params)}}
}

// If a handler quotes a param, its message does not contain the value of a variable. This holds for
// every handler.
func TestMessagesOfHandlersAreMasked(t *testing.T) {
	env := WithEnv(func(name string) (string, bool) { return "hunter2", name == "TOKEN" })
	for _, params := range []string{`{a: "${TOKEN}"}`, `{a: ["x", {b: "Bearer ${TOKEN}"}]}`,
		`{a: "https://hooks.example.com/T1/${TOKEN}"}`} {
		_, err := parse("jobs: [{name: j, handler: quoting, params: "+params+"}]", env,
			WithHandlers(quoting{}))
		if text := fmt.Sprint(err); strings.Contains(text, "hunter2") ||
			!strings.Contains(text, "[redacted]") || strings.Contains(text, "T1") {
			t.Errorf("%s: got %v", params, err)
		}
	}
	_, err := parse(`jobs: [{name: j, for_each: ["${TOKEN}"], handler: quoting, params: {a: "x{item}"}}]`, env,
		WithHandlers(quoting{}))
	if text := fmt.Sprint(err); strings.Contains(text, "xhunter2") ||
		!strings.Contains(text, "[redacted]") {
		t.Errorf("for_each: got %v", err)
	}
}

// The scheme and host of a URL, and defaults in the file, are not secret.
func TestSecretsOfParams(t *testing.T) {
	c, err := Parse("c.yaml", []byte(`jobs: [{name: j, handler: own, params: {
  url: "${SCHEME}://${HOST}/T1/${TOKEN}", n: "${NUMBER}", d: "${UNSET:-default}", p: plain,
  l: ["${TOKEN}", {x: "a ${OTHER} b"}]}}]`),
		WithEnv(func(name string) (string, bool) { return strings.ToLower(name), name != "UNSET" }))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Jobs[0].Params.Secrets()
	slices.Sort(got)
	want := []string{"number", "other", "scheme://host/T1/token", "token", "token"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Only a text with a scheme has a host that may be shown. A text with a user is also a secret as a
// whole, because parts of it that are no variables can be found then.
func TestSecretBehindSlashes(t *testing.T) {
	for text, want := range map[string][]string{
		"//${TOKEN}":            {"hunter2"},
		"//u:${TOKEN}@db/x":     {"//u:hunter2@db/x", "hunter2"},
		"//u:secret@${TOKEN}/x": {"//u:secret@hunter2/x", "hunter2"},
	} {
		c, err := Parse("c.yaml",
			[]byte(`jobs: [{name: j, handler: own, params: {a: "`+text+`"}}]`),
			WithEnv(func(string) (string, bool) { return "hunter2", true }))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Jobs[0].Params.Secrets(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
