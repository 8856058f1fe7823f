package pages

import (
	"cmp"
	"html/template"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// waitHTML builds parts of the lists of waiting runs.
type waitHTML struct{ lockHTML }

// TreeRows returns the wait chains as entries of a list.
func (c chainList) TreeRows() template.HTML {
	var h waitHTML
	for _, t := range c.WaitChains.Trees {
		h.Add(`<li data-key="`, Key("root", cmp.Or(t.Resource, t.Holder.Run)), `">`)
		h.rootRow(c, t)
		h.hops(newWideHops(c.Now, t.Waiters, c.Can))
		h.Add("</li>\n")
	}
	return h.Fragment()
}

// rootRow adds the row of the root of a tree: its holder, how long it has held the lock, and the
// actions on it.
func (h *waitHTML) rootRow(c chainList, t *locks.WaitTree) {
	known := t.Holder.Replica != ""
	h.Add(`<div class="hop`)
	h.AddIf(known, ` root-of`)
	h.Add(`"><span class="who">`)
	h.root(t)
	if known && len(t.Others) == 0 {
		h.Add(` <span class="sub">on <bdi>`, t.Holder.Replica, `</bdi></span>`)
	}
	h.Add(`</span> `)
	h.heldBar(t, c.Now)
	h.Add(` <span class="for">`)
	if t.Lock != nil {
		h.Add(`<span class="w">held </span>`)
		h.Ticking(words.At(c.Now, t.Lock.Since))
	}
	h.Add(`</span> <span class="until`)
	h.AddIf(t.Over(c.Now), ` over`)
	h.Add(`">`, t.UsualWords(), `</span> <span class="do">`)
	if c.Can.Cancel && isRun(t.Holder.Run) {
		h.Add(`<a class="button plain small" href="/runs/`, t.Holder.Run,
			`/cancel"> Cancel run<span class="hidden"> of `, words.Cut(t.Holder.Job, 100),
			`</span></a> `)
	}
	if c.Can.Release && t.Lock != nil {
		h.release(true, t.Lock)
	}
	h.Add(`</span></div>`)
}

// waitTreeRows returns waiting runs as entries of a list, each below the run that causes its wait.
func waitTreeRows(now time.Time, trees []*locks.WaitTree, can permission.Allowed) template.HTML {
	var h waitHTML
	for _, t := range trees {
		h.Add(`<li data-key="`, Key("root", cmp.Or(t.Resource, t.Holder.Run)), `"><div class="hop`)
		h.AddIf(t.Holder.Replica != "", ` root-of`)
		h.Add(`"><span class="who">`)
		h.root(t)
		h.Add(`</span> <span class="for sub">`)
		if l := t.Lock; l != nil {
			h.Add(`held `)
			h.Ticking(words.At(now, l.Since))
			if can.Release {
				h.Add(` `)
				h.release(false, l)
			}
			if usual := l.Usual(now); usual != "" {
				h.Add(`<span class="below">usually `, usual, `</span>`)
			}
		}
		h.Add(`</span></div>`)
		h.hops(newHops(now, t.Waiters, can))
		h.Add("</li>\n")
	}
	return h.Fragment()
}

// heldBar draws how long a holder has held its lock, on the axis of time.
func (h *waitHTML) heldBar(t *locks.WaitTree, now time.Time) {
	h.waitAxis()
	if t.Lock != nil {
		h.Add(`<rect class="held`)
		h.AddIf(t.Over(now), ` over`)
		h.Add(`" x="`, t.Bar.X.String(), `" y="1" width="`, t.Bar.W.String(),
			`" height="10" rx="1.5"/>`)
	}
	h.Add(`</svg>`)
}

// waitAxis begins a picture and draws the axis of time. The caller ends the picture.
func (h *waitHTML) waitAxis() {
	h.Add(`<svg class="span" height="12" aria-hidden="true">` +
		`<line class="base" x1="0" x2="100%" y1="11.5" y2="11.5"/>`)
}

// root adds the holders of a tree, and what they hold.
func (h *waitHTML) root(t *locks.WaitTree) {
	if t.Holder.Replica == "" {
		h.Add(`<span class="sub">Without a blocker</span>`)
		return
	}
	h.holders(t)
	switch {
	case t.OwnName() && t.Lock != nil:
		h.Add(` <span class="sub">is running</span>`)
	case t.OwnName():
		h.Add(` <span class="sub">has ended</span>`)
	case t.Resource != "":
		h.Add(` <span class="sub">`)
		switch {
		case t.Lock == nil:
			h.Add(`was last seen with `)
		case len(t.Others) > 0:
			h.Add(`hold `)
		default:
			h.Add(`holds `)
		}
		h.tail(t.Resource)
		if slots := t.Slots(); slots > 0 {
			h.Add(`<span>, `, words.Count(slots), ` of `, words.Count(t.Lock.Slots),
				` slots</span>`)
		}
		h.Add(`</span>`)
	}
}

// holders adds links to the jobs that hold what the runs of a tree wait for.
func (h *waitHTML) holders(t *locks.WaitTree) {
	if len(t.Others) == 0 {
		h.Holder(t.Holder.Job)
		return
	}
	h.Add(`<span>`)
	h.Holder(t.Holder.Job)
	for _, l := range t.OthersShown() {
		h.Add(`, `)
		h.Holder(l.Holder.Job)
	}
	if more := t.OthersMore(); more > 0 {
		h.Add(` and `, words.Count(more), ` more`)
	}
	h.Add(`</span>`)
}

// hops adds waiting runs as a list. There is no list without runs.
func (h *waitHTML) hops(l hops) {
	if len(l.Waiters) == 0 {
		return
	}
	h.Add(`<ul data-slots="">`)
	for _, w := range l.Waiters {
		h.hop(l, w)
	}
	h.Add(`</ul>`)
}

// hop adds a waiting run, and those that wait for it.
func (h *waitHTML) hop(l hops, w *locks.Waiter) {
	since := words.At(l.Now, records.Since(w.Record))
	h.Add(`<li id="run-`, w.ID.String(), `"><div class="hop"><span class="who">`)
	h.Job(w.Job)
	h.Add(` <span class="sub">`)
	h.wants(w, l.Wide)
	h.Add(`</span></span> `)
	if l.Wide {
		h.waitBar(w.Bar)
		h.Add(` <span class="for"><span class="w">waits </span>`)
		h.Ticking(since)
		h.Add(`</span> <span class="until sub">`, w.Limit.Words)
		if !w.Limit.At.IsZero() {
			h.Add(` `)
			h.Clock(words.At(l.Now, w.Limit.At))
		}
		h.Add(`</span> <span class="do">`)
	} else {
		h.Add(`<span class="for">`)
		h.Ticking(since)
	}
	if l.Can.Cancel {
		h.Add(` <a href="/runs/`, w.ID.String(), `/cancel"> Cancel run<span class="hidden"> of `,
			words.Cut(w.Job, 100), `</span></a>`)
	}
	h.Add(`</span></div>`)
	h.hops(l.Below(w))
	h.Add("</li>\n")
}

// wants adds what a run waits for, and if there is room, a link to the run.
func (h *waitHTML) wants(w *locks.Waiter, wide bool) {
	switch wants := w.Wants(); {
	case w.BehindOwnRun():
		h.Add(`waits for its earlier run`)
	case wants == "":
		h.Add(`<bdi>`, words.WhyWaits(w.Record), `</bdi>`)
	case wide:
		h.Add(`wants `)
		h.Timeline(wants)
	default:
		h.Add(`wants `)
		h.tail(wants)
	}
	if wide {
		h.Add(` `)
		h.Run(w.ID.String())
	}
}

// waitBar draws the wait of a run on the axis of time: how long it has waited, and how long it will
// wait at most.
func (h *waitHTML) waitBar(b charts.WaitBar) {
	h.waitAxis()
	h.Add(`<rect class="rest" x="`, b.RestX.String(), `" y="4.5" width="`,
		b.RestW.String(), `" height="3"/><rect class="waited" x="`, b.X.String(),
		`" y="1" width="`, b.W.String(), `" height="10" rx="1.5" fill="url(#hatch)"/>`)
	if b.Ends {
		h.Add(`<line class="end" x1="`, b.EndX.String(), `" x2="`, b.EndX.String(),
			`" y1="0" y2="12"/>`)
	}
	h.Add(`</svg>`)
}

// tail adds the name of a resource. Where there is little room, the stylesheet cuts its beginning.
func (h *waitHTML) tail(resource string) {
	name := words.Cut(resource, 200)
	h.Add(`<span title="`, name, `"><bdi>`, name, `</bdi></span>`)
}
