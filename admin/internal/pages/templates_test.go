package pages

import "testing"

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
