package pages

import (
	"html/template"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// These fragments are on a page hundreds of times. A template calls several functions by reflection
// for each of their values. So Go makes them, at about a fifth of the processor time.

// fragment joins texts that are HTML, and texts that are not and are escaped: the second, the
// fourth and so on.
func fragment(parts ...string) template.HTML {
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 1 {
			part = template.HTMLEscapeString(part)
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// The kinds of times: "3 min ago", the time of day, the time since, and times that the script of
// the page counts each second.

func relativeTime(t words.Time) template.HTML { return timeTag("", "", t, t.Relative()) }

func clockTime(t words.Time) template.HTML { return timeTag(` class="clock"`, "", t, t.Clock()) }

func passedTime(t words.Time) template.HTML { return timeTag("", "since ", t, t.Passed()) }

func tickingTime(t words.Time) template.HTML {
	return timeTag(` data-tick="up"`, "since ", t, t.Passed())
}

func comingTime(t words.Time) template.HTML {
	return timeTag(` data-tick="down"`, "", t, t.Relative())
}

// timeTag returns a time with its exact value as a title, which begins with a word.
func timeTag(attribute, word string, t words.Time, text string) template.HTML {
	return fragment(`<time`+attribute+` datetime="`, t.ISO(), `" title="`, word+t.Exact(), `">`,
		text, `</time>`)
}

// jobLink links a job.
func jobLink(name string) template.HTML {
	return fragment(`<a class="name" href="`, param.JobPath(name), `"><bdi>`, words.Cut(name, 200),
		`</bdi></a>`)
}

// runLink links a run, or names the id of a holder that is no run.
func runLink(id string) template.HTML {
	if !isRun(id) {
		return fragment(`<bdi class="sub">`, Short(id), `</bdi>`)
	}
	return fragment(`<a class="id" href="/runs/`, id, `" title="run `, id, `">`, Short(id), `</a>`)
}
