package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestJSONTreeIsTheTreeOfYAML reads texts as JSON and as YAML, which has JSON in it.
func TestJSONTreeIsTheTreeOfYAML(t *testing.T) {
	env := environment{lookup: func(name string) (string, bool) {
		return "found " + name, name == "REGION"
	}}
	for _, text := range []string{
		`{}`, `[]`, `{"a":[],"b":{}}`,
		`{"name":"a","empty":"","spaces":" a ","null":null,"text":"null","list":[1,"1",true,null]}`,
		`{"escapes":"\"\\\n\t\u2028\u0007 é","key with ${x}":1,"~":"~","a.b":{"c":"<&>"}}`,
		`{"numbers":[0,-1,1.5,1e3,-2.5E-3,9007199254740993,123456789012345678901234567890]}`,
		`{"yes":true,"no":false,"quoted":"true"}`,
		`{"region":"${REGION}","literal":"$${REGION}","two":["${REGION}-${REGION}"]}`,
		`{"missing":"${NOWHERE}","open":"${REGION"}`,
		nested(maxDepth - 2),
	} {
		asJSON, asYAML := newDocument("holdfast.yaml"), newDocument("holdfast.yaml")
		asJSON.built, asYAML.built = true, true
		got, err := asJSON.jsonTree(text, "jobs[0]", env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want := newTreeBuilder(asYAML, text, env).build(asYAML.parseYAML([]byte(text)), "jobs[0]",
			position{1, 1}, 1)
		if outline(got) != outline(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", text, outline(got), outline(want))
		}
		if got, want := pathsOf(asJSON), pathsOf(asYAML); !slices.Equal(got, want) {
			t.Errorf("%s: got paths %q, want %q", text, got, want)
		}
		if got, want := messagesOf(asJSON), messagesOf(asYAML); !slices.Equal(got, want) {
			t.Errorf("%s: got problems %q, want %q", text, got, want)
		}
	}
}

// TestJSONTreeRefusesKeysTwice is for params whose type writes a key twice.
func TestJSONTreeRefusesKeysTwice(t *testing.T) {
	d := newDocument("configuration")
	d.built = true
	tree, err := d.jsonTree(`{"a":1,"a":{"b":2},"c":3}`, "jobs[0]", environment{lookup: noEnv})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"jobs[0].a: found the key a second time, expected it once"}
	if got := messagesOf(d); !slices.Equal(got, want) {
		t.Errorf("got problems %q, want %q", got, want)
	}
	if got := outline(tree); got != `{"a":int"1","c":int"3"}` {
		t.Errorf("got %s", got)
	}
}

// nested returns a JSON text with so many levels, an even number.
func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2)
}

// TestJSONTreeRefusesDeepTexts skips a value that is too deep, and reads those after it.
func TestJSONTreeRefusesDeepTexts(t *testing.T) {
	d := newDocument("configuration")
	d.built = true
	tree, err := d.jsonTree(`{"deep":`+nested(maxDepth+2)+`,"after":1}`, "jobs[0]",
		environment{lookup: noEnv})
	if err != nil {
		t.Fatal(err)
	}
	want := ": found too much within one another, expected at most 64 levels"
	if got := messagesOf(d); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Errorf("got problems %q, want one that ends with %q", got, want)
	}
	if got := outline(tree); !strings.HasSuffix(got, `,"after":int"1"}`) {
		t.Errorf("got %s", got)
	}
}

// TestJSONTreeRefusesBrokenTexts gives the first part of a text only.
func TestJSONTreeRefusesBrokenTexts(t *testing.T) {
	whole := `{"a":[1,{"b":"c"}],"d":null}`
	for length := range len(whole) {
		d := newDocument("configuration")
		env := environment{lookup: noEnv}
		if _, err := d.jsonTree(whole[:length], "jobs[0]", env); err == nil {
			t.Errorf("%s: got no error", whole[:length])
		}
	}
}

// outline returns everything in a tree except the positions.
func outline(n *node) string {
	var parts []string
	switch n.kind {
	case kindMapping:
		for _, e := range n.entries {
			parts = append(parts, fmt.Sprintf("%q:%s", e.name, outline(e.value)))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case kindList:
		for _, item := range n.items {
			parts = append(parts, outline(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case kindNull, kindInvalid:
		return n.kind.String()
	}
	kinds := map[kind]string{kindBool: "bool", kindInt: "int", kindFloat: "float", kindText: "text"}
	text := fmt.Sprintf("%s%q", kinds[n.kind], n.text)
	if n.expanded {
		text += fmt.Sprintf(" from %q with %q", n.written, n.secrets)
	}
	return text
}

func pathsOf(d *document) []string { return slices.Sorted(maps.Keys(d.places)) }

func messagesOf(d *document) (messages []string) {
	for _, p := range d.problems {
		messages = append(messages, p.Key+": "+p.Message)
	}
	return messages
}
