package pages

import (
	"hash/fnv"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// HTML builds parts that are on a page hundreds of times, such as the rows of a list. A template
// calls several functions by reflection for each of their values. HTML takes about a tenth of that
// processor time. The zero value is empty.
type HTML struct{ out strings.Builder }

// Add appends texts that are HTML, and texts that are not and are escaped: the second, the fourth
// and so on. The latter may also be values of attributes in quotes.
func (h *HTML) Add(parts ...string) {
	for i, part := range parts {
		if i%2 == 1 {
			part = template.HTMLEscapeString(part)
		}
		h.out.WriteString(part)
	}
}

// AddIf appends a text that is HTML if a condition is true.
func (h *HTML) AddIf(condition bool, text string) {
	if condition {
		h.out.WriteString(text)
	}
}

// Chart appends a picture.
func (h *HTML) Chart(f charts.Fragment) { h.out.WriteString(string(f)) }

// Fragment returns what was appended.
func (h *HTML) Fragment() template.HTML { return template.HTML(h.out.String()) }

// The kinds of times: "3 min ago", the time of day, the time since, and times that the script of
// the page counts each second.

// Relative appends a time as "3 min ago".
func (h *HTML) Relative(t words.Time) { h.time("", "", t, t.Relative()) }

// Clock appends the time of day.
func (h *HTML) Clock(t words.Time) { h.time(` class="clock"`, "", t, t.Clock()) }

// Passed appends how long ago a time was.
func (h *HTML) Passed(t words.Time) { h.time("", "since ", t, t.Passed()) }

// Ticking appends how long ago a time was, which the script counts.
func (h *HTML) Ticking(t words.Time) { h.time(` data-tick="up"`, "since ", t, t.Passed()) }

// Coming appends how long it is until a time, which the script counts.
func (h *HTML) Coming(t words.Time) { h.time(` data-tick="down"`, "", t, t.Relative()) }

// time appends a time with its exact value as a title, which begins with a word.
func (h *HTML) time(attribute, word string, t words.Time, text string) {
	h.Add(`<time`+attribute+` datetime="`, t.ISO(), `" title="`, word+t.Exact(), `">`, text,
		`</time>`)
}

// Job appends a link to a job.
func (h *HTML) Job(name string) {
	h.Add(`<a class="name" href="`, param.JobPath(name), `"><bdi>`, words.Cut(name, 200),
		`</bdi></a>`)
}

// Run appends a link to a run, or the id of a holder that is no run.
func (h *HTML) Run(id string) {
	if !isRun(id) {
		h.Add(`<bdi class="sub">`, Short(id), `</bdi>`)
		return
	}
	h.Add(`<a class="id" href="/runs/`, id, `" title="run `, id, `">`, Short(id), `</a>`)
}

// Timeline appends a link to the timeline of a resource.
func (h *HTML) Timeline(resource string) {
	h.Add(`<a class="res" href="/locks/timeline?resource=`, InQuery(resource), `"><bdi>`,
		words.Cut(resource, 200), `</bdi></a>`)
}

// InQuery escapes a value of a query as the templates do.
func InQuery(value string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// fragment returns what a function appends.
func fragment[T any](add func(*HTML, T)) func(T) template.HTML {
	return func(of T) template.HTML {
		var h HTML
		add(&h, of)
		return h.Fragment()
	}
}

// Key returns a key for a row, by which the script recognizes it after a refresh. It is a hash,
// because names can be long.
func Key(kind string, of ...string) string {
	hash := fnv.New64a()
	for _, one := range of {
		_, _ = io.WriteString(hash, one) // a hash returns no error
		_, _ = hash.Write([]byte{0})
	}
	return kind + "-" + strconv.FormatUint(hash.Sum64(), 16)
}
