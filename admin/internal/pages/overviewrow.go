package pages

import (
	"cmp"
	"html/template"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
)

// problemRows returns problems as entries of a list.
func problemRows(now time.Time, problems []cluster.Problem) template.HTML {
	var h HTML
	for _, p := range problems {
		h.Add(`<li data-key="`, Key("problem", string(p.Kind), p.Subject), `"><span class="badge `)
		h.AddIf(p.Severity == cluster.Red, `failed`)
		h.AddIf(p.Severity != cluster.Red, `skipped`)
		h.Add(`">`, p.Kind.Label(), `</span> <span class="what"><bdi>`,
			words.Unbroken(words.Grouped(p.Text)), `</bdi></span> <span class="for">`)
		switch {
		case p.EndedAt != nil:
			h.Add(`ended `)
			h.Relative(words.At(now, *p.EndedAt))
		case p.Since != nil:
			h.Add(`for `)
			h.AddIf(p.AtLeast, `more than `)
			h.Ticking(words.At(now, *p.Since))
		}
		h.Add(`</span> <span class="do"><a href="`, p.Link, `">`, p.Kind.LinkText())
		if p.Subject != "" {
			h.Add(`<span class="hidden"> of `, words.Cut(p.Subject, 60), `</span>`)
		}
		h.Add("</a></span></li>\n")
	}
	return h.Fragment()
}

// shownOfList is how many locks of a running run and resources of a firing the overview names.
const shownOfList = 3

// runningRows returns running runs as entries of a list.
func runningRows(now time.Time, runs []cluster.RunningRow) template.HTML {
	var h HTML
	for _, run := range runs {
		h.Add(`<li id="run-`, run.ID.String(), `"><div class="ln"><span>`)
		h.Job(run.Job)
		h.Add(` `)
		h.Run(run.ID.String())
		h.Add(`</span> <b class="num">`)
		h.Ticking(words.At(now, records.Since(run.Record)))
		h.Add(`</b></div><div class="ln"><span class="sub cut">`)
		for i, lock := range run.Locks {
			if i == shownOfList {
				h.Add(` and more`)
				break
			}
			h.AddIf(i == 0, `holds `)
			h.AddIf(i > 0, `, `)
			h.Timeline(lock.Resource)
		}
		h.AddIf(len(run.Locks) > 0, `, `)
		h.Add(`on <bdi>`, run.Replica, `</bdi>`)
		if run.Attempt > 1 {
			h.Add(`, attempt `, words.Count(run.Attempt))
		}
		if run.Recovery != 0 {
			h.Add(`, recovery `, words.Count(run.Recovery))
		}
		h.Add(`</span>`)
		h.usual(run)
		h.Add("</div></li>\n")
	}
	return h.Fragment()
}

// usual adds how long the last runs of the job of a running run took.
func (h *HTML) usual(run cluster.RunningRow) {
	usual, over := run.Usual(), run.Over()
	if usual == "" {
		return
	}
	h.Add(` <span class="sub side"><span`)
	h.AddIf(over, ` class="over"`)
	h.Add(`>`, usual, `</span> <svg class="meter`)
	h.AddIf(over, ` over`)
	h.Add(`" aria-hidden="true"><rect width="`, run.Elapsed(),
		`" height="6"/><rect class="usual" x="`, run.Median(),
		`" width="2" height="6"/></svg></span>`)
}

// nextRows returns the next firings as entries of a list.
func nextRows(now time.Time, firings []cluster.Firing) template.HTML {
	var h HTML
	for i, f := range firings {
		at := words.At(now, f.ScheduledAt)
		h.Add(`<li data-key="next-`, strconv.Itoa(i), `"><div class="ln">`)
		h.Job(f.Job)
		h.Add(` <span class="num">`)
		h.Coming(at)
		h.Add(`</span></div><div class="ln"><span class="sub cut">`)
		h.Clock(at)
		for i, r := range f.Resources {
			if i == shownOfList {
				h.Add(` and more`)
				break
			}
			h.Add(`, <bdi>`, r.Resource, `</bdi>`)
		}
		h.Add(`</span>`)
		if f.Expected != "" {
			h.Add(` <span class="sub warn">`, f.Expected, ` expected</span>`)
		}
		h.Add("</div></li>\n")
	}
	return h.Fragment()
}

// failingRows returns jobs whose last runs failed as entries of a list, by their errors.
func failingRows(now time.Time, groups []cluster.FailingGroup) template.HTML {
	var h HTML
	for _, g := range groups {
		text := cmp.Or(g.Error, "The error of the last run is not among the newest failures.")
		h.Add(`<li data-key="`, Key("failing", g.Error), `"><p class="err"><bdi>`, text,
			`</bdi></p>`)
		for _, job := range g.Jobs {
			h.Add(`<div class="ln"><span>`)
			h.Job(job.Job)
			h.Add(` <span class="badge failed">`)
			h.AddIf(job.AtLeast, `at least `)
			h.AddText(words.Figure(job.Failures, "failure", "failures"))
			h.Add(` in a row</span></span> <span class="sub">for `)
			h.AddIf(job.AtLeast, `more than `)
			h.Ticking(words.At(now, job.Since))
			h.Add(`, last `)
			h.Relative(words.At(now, job.Last))
			h.Add(`</span></div>`)
		}
		h.Add("</li>\n")
	}
	return h.Fragment()
}

// failureRows returns the rows of a table of jobs with runs that did not succeed.
func failureRows(now time.Time, list []cluster.JobFailures) template.HTML {
	var h HTML
	for _, f := range list {
		h.Add(`<tr role="row" data-key="`, Key("job", f.Job), `"><th role="rowheader" scope="row">`)
		h.Job(f.Job)
		h.Add(`</th><td role="cell" data-label="Failed" class="num`)
		h.failures(f, f.Failed(), "bad", jobs.Failed, jobs.TimedOut)
		h.Add(`<td role="cell" data-label="Lost or cancelled" class="num p2 back`)
		h.failures(f, f.Ended(), "bad", jobs.Lost, jobs.Cancelled)
		h.Add(`<td role="cell" data-label="Skipped or missed" class="num`)
		h.failures(f, f.NotRun(), "warn", jobs.Skipped, jobs.Missed)
		h.Add(`<td role="cell" class="p3 back full">`)
		if f.Reason == "" {
			h.Add(`<span class="none">handler error</span>`)
		} else {
			h.AddText(words.ShortReason(f.Reason))
		}
		h.Add(`</td><td role="cell" data-label="Last">`)
		h.Relative(words.At(now, f.Last))
		h.Add("</td></tr>\n")
	}
	return h.Fragment()
}

// failures adds the rest of a cell with a number of runs, from within its class.
func (h *HTML) failures(f cluster.JobFailures, runs int, class string, states ...jobs.State) {
	if runs == 0 {
		h.Add(` bare">–</td>`)
		return
	}
	h.Add(`"><a class="`, class, `" href="`, param.RunsOfJobPath(f.Job, "", f.Since, states...),
		`">`, words.Count(runs), `</a></td>`)
}

// hourRows returns the rows of the table of a histogram.
func hourRows(c *charts.Histogram) template.HTML {
	var h HTML
	for _, hour := range c.Hours {
		h.Add(`<tr role="row"><th role="rowheader" scope="row" class="whole">`)
		h.Clock(words.At(c.Now, hour.From))
		h.Add(`</th>`)
		h.runs("Succeeded", hour.Succeeded)
		h.runs("Failed", hour.Failed)
		h.runs("Skipped", hour.Skipped)
		h.runs("Cancelled", hour.Cancelled)
		h.Add(`<td role="cell" data-label="Start delay of 95%">`, orNone(hour.Delay),
			"</td></tr>\n")
	}
	return h.Fragment()
}

// runs adds a cell with a number of runs and a link to them.
func (h *HTML) runs(label string, n charts.HistogramCount) {
	h.Add(`<td role="cell" class="num" data-label="`, label, `">`)
	if n.Runs == 0 {
		h.Add(`0</td>`)
		return
	}
	h.Add(`<a href="`, n.Path, `">`, words.Count(n.Runs), `</a></td>`)
}
