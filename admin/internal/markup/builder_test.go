package markup

import (
	"bytes"
	"html/template"
	"testing"
)

// TestBuilderEscapesLikeATemplate compares texts and attributes with those of a template.
func TestBuilderEscapesLikeATemplate(t *testing.T) {
	const hostile = "a\"b'c<d>&e=f+g/h?i#j%k`l\u202e\x00"
	const text = `<a title="run {{.}}"><bdi>{{.}}</bdi></a>`
	var want bytes.Buffer
	if err := template.Must(template.New("").Parse(text)).Execute(&want, hostile); err != nil {
		t.Fatal(err)
	}
	var got Builder
	got.Add(`<a title="run `, hostile, `"><bdi>`, hostile, `</bdi>`)
	got.AddIf(true, `</a>`)
	got.AddIf(false, `<b>`)
	if got.String() != want.String() {
		t.Errorf("got  %s\nwant %s", got.String(), want.String())
	}
}
