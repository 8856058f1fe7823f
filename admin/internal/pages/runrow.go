package pages

import (
	"html/template"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Rows returns the rows of a list of runs.
func (l runList) Rows() template.HTML {
	rows := runRows{runList: l}
	for i := range l.Runs {
		rows.add(&l.Runs[i])
	}
	return rows.Fragment()
}

// runRows builds the rows of a list of runs.
type runRows struct {
	HTML
	runList
}

// add adds the row of a run.
func (r *runRows) add(run *storage.Record) {
	r.Add(`<tr role="row"`)
	if r.Slots != "" {
		r.Add(` data-key="run-`, run.ID.String(), `"`)
	}
	r.AddIf(!run.State.Final(), ` class="active"`)
	r.Add(`>`)
	if r.Pick {
		r.Add(`<td role="cell" class="pickcell"><label><input type="checkbox" class="pick" `+
			`name="run" value="`, run.ID.String(), `"> <span class="hidden">Select <bdi>`,
			words.Cut(run.Job, 100), `</bdi> of `)
		r.Clock(words.At(r.Now, run.ScheduledAt))
		r.Add(`</span></label></td>`)
	}
	r.scheduled(run)
	if !r.One {
		r.Add(`<td role="cell" class="job">`)
		r.Job(run.Job)
		r.Add(`</td>`)
	}
	r.Add(`<td role="cell"><span class="badge `, string(run.State), `">`, words.State(run.State),
		`</span></td>`)
	r.ended(run)
	r.figures(run)
	r.why(run)
	if r.Links() {
		r.action(run)
	}
	r.Add("</tr>\n")
}

// scheduled adds the scheduled time of a run, and where the run comes from.
func (r *runRows) scheduled(run *storage.Record) {
	r.Add(`<th role="rowheader" scope="row" class="whole"><a href="/runs/`, run.ID.String(), `">`)
	r.Clock(words.At(r.Now, run.ScheduledAt))
	r.Add(`</a>`)
	switch {
	case run.Backfill != uuid.Nil:
		r.Add(` <span class="sub">backfill</span>`)
	case run.Key != "":
		r.Add(` <span class="sub">triggered</span>`)
	}
	if run.Recovery != 0 {
		r.Add(` <span class="sub">recovery `, words.Count(run.Recovery), `</span>`)
	}
	r.Add(`</th>`)
}

// ended adds when a run ended, or since when it has its state.
func (r *runRows) ended(run *storage.Record) {
	ended := run.State.Final()
	r.Add(`<td role="cell" data-label="`)
	r.AddIf(ended, `Ended`)
	r.AddIf(!ended, `Since`)
	r.Add(`" class="p3 back"> `)
	switch {
	case ended:
		r.Relative(words.At(r.Now, records.Ended(*run)))
	case run.StartsLater(r.Now):
		r.Add(`starts `)
		r.Coming(words.At(r.Now, run.WaitSince))
	default:
		r.Add(`for `)
		r.Passed(words.At(r.Now, records.Since(*run)))
	}
	r.Add(`</td>`)
}

// orNone returns a text, or a dash for none.
func orNone(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// figures adds how long a run waited and ran, its attempts and its replica.
func (r *runRows) figures(run *storage.Record) {
	if !r.Fixed {
		r.Add(`<td role="cell" class="num p2 gone tight">`)
		if run.State == jobs.Waiting && run.BlockedBy != nil {
			r.Passed(words.At(r.Now, records.Since(*run)))
		} else {
			r.AddText(orNone(records.LockWait(*run)))
		}
		r.Add(`</td>`)
	}
	lasted := records.Lasted(*run)
	r.Add(`<td role="cell" data-label="Ran" class="num`)
	r.AddIf(lasted == "", ` bare`)
	r.Add(`">`, orNone(lasted), `</td><td role="cell" class="num p4 gone">`,
		orNone(records.StartDelay(*run)), `</td><td role="cell" class="num p4 gone">`)
	if run.Attempt > 0 {
		r.AddText(words.Count(run.Attempt))
	} else {
		r.Add(`–`)
	}
	r.Add(`</td><td role="cell" data-label="Replica" class="p3 back replica`)
	if run.Replica == "" {
		r.Add(` bare">–</td>`)
	} else {
		r.Add(`"><bdi>`, words.Cut(run.Replica, 100), `</bdi></td>`)
	}
}

// why adds the reason of the state of a run, and its error.
func (r *runRows) why(run *storage.Record) {
	why := words.Why(*run)
	r.Add(`<td role="cell" class="why full`)
	r.AddIf(why == "" && run.Error == "", ` bare`)
	r.Add(`"><div>`)
	if o := newObstacle(*run); o != nil {
		r.Add(`<span`)
		r.AddIf(r.Fixed, ` class="cut2"`)
		r.Add(`>`)
		o.addTo(&r.HTML)
		r.Add(`</span>`)
	} else if why != "" {
		r.Add(`<span`)
		r.AddIf(r.Fixed, ` class="cut2"`)
		r.Add(`><bdi data-says>`, why, `</bdi></span> `)
	}
	if run.Error != "" {
		r.Add(`<span class="err`)
		r.AddIf(r.Fixed, ` cut2`)
		r.Add(`"><bdi>`, words.Cut(run.Error, 300), `</bdi></span>`)
	}
	r.Add(`</div></td>`)
}

// action adds a link to the action that is possible on a run.
func (r *runRows) action(run *storage.Record) {
	at := words.At(r.Now, run.ScheduledAt).Clock()
	r.Add(`<td role="cell" class="num p2 back">`)
	switch {
	case run.State.Final() && r.Can.Trigger:
		r.Add(`<a href="/runs/`, run.ID.String(), `/again">Run again<span class="hidden"> `,
			words.Cut(run.Job, 100), ` of `, at, `</span></a>`)
	case !run.State.Final() && r.Can.Cancel:
		r.Add(`<a href="/runs/`, run.ID.String(), `/cancel">Cancel run<span class="hidden"> of `,
			words.Cut(run.Job, 100), ` of `, at, `</span></a>`)
	}
	r.Add(`</td>`)
}

// Text returns a sentence about what keeps or kept the run from starting.
func (o *obstacle) Text() template.HTML {
	var h HTML
	o.addTo(&h)
	return h.Fragment()
}

// addTo adds the text.
func (o *obstacle) addTo(h *HTML) {
	switch {
	case o.Resource == "":
		h.Add(`An earlier run of the job is active.`)
	case o.Queued:
		h.Add(`Queued for `)
		h.Timeline(o.Resource)
		h.Add(` behind `)
		h.Holder(o.Job)
	default:
		h.Timeline(o.Resource)
		h.AddIf(o.Over, ` was locked by `)
		h.AddIf(!o.Over, ` is locked by `)
		h.Holder(o.Job)
	}
	if o.Resource != "" {
		if isRun(o.Run) {
			h.Add(`, run `)
			h.Run(o.Run)
		}
		if o.Replica != "" {
			h.Add(`, on <bdi>`, words.Cut(o.Replica, 100), `</bdi>`)
		}
		h.Add(`.`)
	}
	if o.Root != "" {
		h.Add(` Root blocker: `)
		h.Job(o.Root)
	}
}
