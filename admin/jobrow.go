package admin

import (
	"html/template"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking"
)

// shownResources is the number of resources of a job that its row names.
const shownResources = 3

// jobRows builds the rows of jobs.
type jobRows struct {
	pages.HTML
	rowOf
}

// Body returns the part of the table with the jobs of a section.
func (v *jobsView) Body(now time.Time, s jobSection) template.HTML {
	if len(s.Jobs) == 0 {
		return ""
	}
	rows := jobRows{rowOf: v.rowOf(now)}
	rows.Add(`<tbody role="rowgroup" data-key="`, pages.Key("part", s.Key()), `"`)
	rows.AddIf(s.Folds(), ` class="kids"`)
	rows.AddIf(s.Sorted, ` data-slots=""`)
	rows.Add(">\n")
	for i := range s.Jobs {
		rows.add(&s.Jobs[i])
	}
	rows.Add("</tbody>\n")
	return rows.Fragment()
}

// add adds the row of a job.
func (r *jobRows) add(j *Job) {
	r.Add(`<tr role="row" data-key="`, pages.Key("job", j.Name), `">`)
	if r.Pick {
		r.Add(`<td role="cell" class="pickcell"><label><input type="checkbox" class="pick" `+
			`name="job" value="`, j.Name, `"> <span class="hidden">Select <bdi>`,
			words.Cut(j.Name, 100), `</bdi></span></label></td>`)
	}
	r.name(j)
	r.state(j)
	if len(j.Outcomes) > 0 {
		r.Add(`<td role="cell">`)
		charts.AddStrip(&r.Builder, j.Outcomes)
	} else {
		r.Add(`<td role="cell" class="bare"><span class="none">–</span>`)
	}
	r.Add(`</td><td role="cell" class="num p3 gone">`)
	if usually := j.Usually(); usually != "" {
		r.AddText(usually)
	} else {
		r.Add(`<span class="none">–</span>`)
	}
	r.Add(`</td><td role="cell" class="p2 back full schedule">`, words.Cut(j.Words, 120), `</td>`)
	r.resources(j)
	r.next(j)
	if r.Acts {
		r.Add(`<td role="cell" class="num p3 gone">`)
		if !j.Removed {
			r.Add(`<a class="button plain small" href="`, param.JobPath(j.Name),
				`/trigger"> Run now<span class="hidden">: `, words.Cut(j.Name, 100), `</span></a>`)
		}
		r.Add(`</td>`)
	}
	r.Add("</tr>\n")
}

// name adds the name of a job, its group and its description.
func (r *jobRows) name(j *Job) {
	r.Add(`<th role="rowheader" scope="row" class="main">`)
	r.Job(j.Name)
	r.AddIf(j.Removed, ` <span class="badge">removed</span>`)
	if len(j.Pauses) > 0 {
		r.Add(` <span class="badge" title="`, words.Cut(j.Covered(), 200), `">paused</span>`)
	}
	if j.Group != "" || j.Description != "" {
		r.Add(` <span class="sub">`)
		if j.Group != "" {
			r.Add(`<a href="/jobs?group=`, pages.InQuery(j.Group), `"><bdi>`,
				words.Cut(j.Group, 60), `</bdi></a>`)
			r.AddIf(j.Description != "", `, `)
		}
		r.Add(`<bdi>`, words.Cut(j.Description, 120), `</bdi></span>`)
	}
	r.Add(`</th>`)
}

// state adds the state of the active run of a job, or else of the last one.
func (r *jobRows) state(j *Job) {
	r.Add(`<td role="cell" class="full ended">`)
	switch {
	case j.active != nil:
		state := j.active.State
		r.Add(`<a href="/runs/`, j.active.Run.String(), `" class="badge `, string(state), `">`,
			words.State(state), `</a> <span class="sub tight">for `)
		r.Passed(words.At(r.Now, j.active.Since))
		r.Add(`</span>`)
	case j.LastRun != nil:
		state := j.LastRun.State
		r.Add(`<a href="/runs/`, j.LastRun.ID.String(), `" class="badge `, string(state), `">`,
			words.State(state), `</a> <span class="sub tight">`)
		r.Relative(words.At(r.Now, records.Ended(*j.LastRun)))
		r.Add(`</span>`)
	default:
		r.Add(`<span class="none">never</span>`)
	}
	r.Add(`</td>`)
}

// resources adds what a job locks.
func (r *jobRows) resources(j *Job) {
	r.Add(`<td role="cell" class="wide p4 gone">`)
	for i, one := range j.Resources {
		if i == shownResources {
			r.Add(` <span class="sub">…</span>`)
			break
		}
		r.AddIf(i > 0, `, `)
		r.Add(`<a class="res" href="/runs?resource=`, pages.InQuery(one.Resource), `"><bdi>`,
			words.Cut(one.Resource, 80), `</bdi></a>`)
		if one.Mode != locking.Exclusive {
			r.Add(` <span class="sub">`, string(one.Mode), `</span>`)
		}
	}
	r.AddIf(len(j.Resources) == 0, `<span class="none">–</span>`)
	r.Add(`</td>`)
}

// next adds the next scheduled time of a job.
func (r *jobRows) next(j *Job) {
	r.Add(`<td role="cell" data-label="Next" class="next`)
	r.AddIf(j.NextScheduledAt == nil, ` bare`)
	r.Add(`">`)
	switch {
	case len(j.Pauses) > 0:
		r.Add(`<span class="none">paused</span>`)
	case j.NextScheduledAt != nil:
		r.Coming(words.At(r.Now, *j.NextScheduledAt))
	default:
		r.Add(`<span class="none">–</span>`)
	}
	r.Add(`</td>`)
}
