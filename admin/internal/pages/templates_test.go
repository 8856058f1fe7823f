package pages

import (
	"io/fs"
	"strings"
	"testing"
)

func TestTemplatesAreReadWithoutIndentation(t *testing.T) {
	const text = `<ul>
  <li class="wide"
      title="x">
    one  two
    three
  </li>
  {{range .}}
    <li>{{.}}</li>
  {{end}}
</ul>
`
	const want = `<ul>
<li class="wide" title="x"> one  two three </li> {{range .}} <li>{{.}}</li> {{end}} </ul>
`
	if got := unindented(text); got != want {
		t.Errorf("unindented: got %q, want %q", got, want)
	}
}

// TestPagesOfActionsHaveOneFrame checks that each file of an action defines the parts that its page
// needs, and no part that the frame does not have.
func TestPagesOfActionsHaveOneFrame(t *testing.T) {
	templates, err := NewTemplates()
	if err != nil {
		t.Fatal(err)
	}
	frame, err := templateFiles.ReadFile("templates/" + actionFrame)
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.ReadDir(templateFiles, "templates/actions")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of actions: %v", len(files), err)
	}
	for _, file := range files {
		action := strings.TrimSuffix(file.Name(), ".html")
		if templates.set.Lookup(file.Name()) == nil {
			t.Errorf("%s has no page", action)
		}
		for _, part := range []string{".title", ".note", ".steps"} {
			if templates.set.Lookup(action+part) == nil {
				t.Errorf("%s lacks the part %s", action, part)
			}
		}
		for _, part := range templates.set.Templates() {
			name, ofAction := strings.CutPrefix(part.Name(), action+".")
			if ofAction && name != "html" && !strings.Contains(string(frame), `"NAME.`+name+`"`) {
				t.Errorf("the frame has no place for %s.%s", action, name)
			}
		}
	}
}
