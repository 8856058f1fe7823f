package pages

import (
	"bytes"
	"html/template"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// TestHTMLEscapesLikeATemplate compares parts that Go builds with what a template makes of the same
// values.
func TestHTMLEscapesLikeATemplate(t *testing.T) {
	hostile := `a"b'c<d>&e=f+g h/i?j#k%l` + "`ä\u202e\x00"
	const text = `<a class="x" href="/jobs?group={{.}}" title="run {{.}}"><bdi>{{.}}</bdi></a>`
	var want bytes.Buffer
	if err := template.Must(template.New("").Parse(text)).Execute(&want, hostile); err != nil {
		t.Fatal(err)
	}
	var got HTML
	got.Add(`<a class="x" href="/jobs?group=`, InQuery(hostile), `" title="run `, hostile,
		`"><bdi>`, hostile, `</bdi></a>`)
	if string(got.Fragment()) != want.String() {
		t.Errorf("got  %s\nwant %s", got.Fragment(), want.String())
	}
}

func TestHTMLShowsTimes(t *testing.T) {
	now := time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)
	at := words.At(now, now.Add(-90*time.Second))
	var h HTML
	for _, add := range []func(words.Time){h.Relative, h.Clock, h.Passed, h.Ticking, h.Coming} {
		add(at)
		h.Add("\n")
	}
	const exact = `datetime="2026-03-14T03:10:45Z" title="`
	want := template.HTML(`<time ` + exact + `2026-03-14 03:10:45 UTC">1 min 30 s ago</time>` +
		"\n" + `<time class="clock" ` + exact + `2026-03-14 03:10:45 UTC">03:10:45</time>` + "\n" +
		`<time ` + exact + `since 2026-03-14 03:10:45 UTC">1 min 30 s</time>` + "\n" +
		`<time data-tick="up" ` + exact + `since 2026-03-14 03:10:45 UTC">1 min 30 s</time>` +
		"\n" + `<time data-tick="down" ` + exact + `2026-03-14 03:10:45 UTC">1 min 30 s ago</time>` +
		"\n")
	if h.Fragment() != want {
		t.Errorf("got  %s\nwant %s", h.Fragment(), want)
	}
}
