package pages

import (
	"hash/fnv"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// HTML builds parts of pages, with times and with links to jobs, runs and resources.
type HTML struct{ markup.Builder }

// Fragment returns what was added.
func (h *HTML) Fragment() template.HTML { return template.HTML(h.String()) }

// The kinds of times: "3 min ago", the time of day, the time since, and times that the script of
// the page counts each second.

// Relative adds a time as "3 min ago".
func (h *HTML) Relative(t words.Time) {
	h.Add(`<time`)
	h.time("", t, t.Relative())
}

// Clock adds the time of day.
func (h *HTML) Clock(t words.Time) {
	h.Add(`<time class="clock"`)
	h.time("", t, t.Clock())
}

// Passed adds how long ago a time was.
func (h *HTML) Passed(t words.Time) {
	h.Add(`<time`)
	h.time("since ", t, t.Passed())
}

// Ticking adds how long ago a time was, which the script counts.
func (h *HTML) Ticking(t words.Time) {
	h.Add(`<time data-tick="up"`)
	h.time("since ", t, t.Passed())
}

// Coming adds how long it is until a time, which the script counts.
func (h *HTML) Coming(t words.Time) {
	h.Add(`<time data-tick="down"`)
	h.time("", t, t.Relative())
}

// time adds the rest of the element of a time. Its title is a word and the exact time.
func (h *HTML) time(word string, t words.Time, text string) {
	h.Add(` datetime="`, t.ISO(), `" title="`, word+t.Exact(), `">`, text, `</time>`)
}

// Job adds a link to a job.
func (h *HTML) Job(name string) {
	h.Add(`<a class="name" href="`, param.JobPath(name), `"><bdi>`, words.Cut(name, 200),
		`</bdi></a>`)
}

// Run adds a link to a run, or the id of a holder that is no run.
func (h *HTML) Run(id string) {
	if !isRun(id) {
		h.Add(`<bdi class="sub">`, Short(id), `</bdi>`)
		return
	}
	h.Add(`<a class="id" href="/runs/`, id, `" title="run `, id, `">`, Short(id), `</a>`)
}

// Timeline adds a link to the timeline of a resource.
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

// fragment returns what a function adds.
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
