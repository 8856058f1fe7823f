package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Holder adds a link to the job of a holder. The holder without a job is a program.
func (h *HTML) Holder(job string) {
	if job == "" {
		h.Add(`a program`)
		return
	}
	h.Job(job)
}

// lockHTML builds parts of the pages about locks.
type lockHTML struct{ HTML }

// release adds a link that releases a lock.
func (h *lockHTML) release(asButton bool, l *locks.Lock) {
	h.Add(`<a`)
	h.AddIf(asButton, ` class="button plain small bad"`)
	h.Add(` href="`, locks.ReleasePath(l.Resource, l.Token),
		`">Release lock<span class="hidden"> `, words.Cut(l.Resource, 100), `</span></a>`)
}

// mode adds the mode of a lock.
func (h *lockHTML) mode(l *locks.Lock) {
	h.AddText(string(l.Mode))
	if l.Slots != 0 {
		h.Add(` of `, words.Count(l.Slots))
	}
}

// expires adds how long it is until the session of a holder's replica ends, after a word such as
// "in ".
func (h *lockHTML) expires(now time.Time, l *locks.Lock, word string) {
	at := words.At(now, l.ExpiresAt)
	h.Add(`<time datetime="`, at.ISO(), `" title="until `, at.Exact(), `, unless renewed">`)
	if at.Over() {
		h.Add(`<span class="badge lost">expired</span></time>`)
	} else {
		h.AddText(word + at.Left())
		h.Add(`</time>`)
	}
}

// takenNodes returns the held resources of a kind as entries of a list, each with its holders.
func takenNodes(l locks.NodeList) template.HTML {
	var h lockHTML
	for _, n := range l.Node.Taken() {
		h.Add(`<li class="node taken" data-key="`, Key("lock", n.Resource),
			`"><p><bdi class="res">`, words.Cut(n.Path(), 300), `</bdi>`)
		h.states(n)
		h.Add(`</p><p class="freed">Free</p>`)
		h.holds(locks.NewNodeList(l.Now, n, l.Actions))
		h.Add("</li>\n")
	}
	return h.Fragment()
}

// nodes returns the children of a node, with their children.
func nodes(l locks.NodeList) template.HTML {
	var h lockHTML
	h.nodes(l.Node)
	return h.Fragment()
}

// nodes adds two lists of the children of a node: those in use, as a tree, and the others.
func (h *lockHTML) nodes(parent *locks.ResourceNode) {
	if busy := parent.Busy(); len(busy) > 0 {
		h.Add(`<ul class="tree">`)
		for _, n := range busy {
			h.node(n)
		}
		h.Add(`</ul>`)
	}
	if idle := parent.Idle(); len(idle) > 0 {
		h.Add(`<ul class="free">`)
		for _, n := range idle {
			h.Add(`<li><a href="/locks/timeline?resource=`, InQuery(n.Resource), `"><bdi>`,
				words.Cut(n.Name, 200), `</bdi></a>`)
			h.AddIf(n.State == locks.HeldAbove, ` <span class="badge running">covered</span>`)
			h.Add("</li>\n")
		}
		h.Add(`</ul>`)
	}
	if more := parent.More(); parent.Resource != "" && more > 0 {
		h.Add(`<p class="links"><a href="/locks?under=`, InQuery(parent.Resource), `">`,
			words.Figure(more, "more resource", "more resources"), `</a></p>`)
	}
}

// node adds a node of the tree. Its children are folded in it.
func (h *lockHTML) node(n *locks.ResourceNode) {
	h.Add(`<li class="node`)
	h.AddIf(n.State == locks.HeldItself, ` taken`)
	h.AddIf(n.Waits > 0, ` waited`)
	h.Add(`">`)
	if len(n.Beneath) == 0 {
		h.Add(`<p><bdi class="res">`, words.Cut(n.Name, 300), `</bdi>`)
		h.states(n)
		h.Add("</p></li>\n")
		return
	}
	h.Add(`<details data-key="`, n.Resource, `"`)
	h.AddIf(n.Open(), ` open`)
	h.Add(`><summary><bdi class="res">`, words.Cut(n.Name, 300), `</bdi>`)
	h.states(n)
	h.Add(` <span class="sub">`, words.Count(n.Resources), ` known`)
	if n.Held > 0 {
		h.Add(`, `, words.Figure(n.Held, "lock", "locks"))
	}
	if n.Waits > 0 {
		h.Add(`, `, words.Figure(n.Waits, "run waits", "runs wait"))
	}
	h.Add(`</span></summary>`)
	h.nodes(n)
	h.Add("</details></li>\n")
}

// states adds whether a resource is held, and how many runs wait for it.
func (h *lockHTML) states(n *locks.ResourceNode) {
	switch n.State {
	case locks.HeldItself:
		h.Add(` <span class="badge running">`, cmp.Or(n.Slots(), "held"), `</span>`)
	case locks.HeldAbove:
		h.Add(` <span class="badge running">covered</span>`)
	}
	if len(n.Waiting) > 0 {
		h.Add(` <span class="badge waiting">`, words.Figure(len(n.Waiting), "waits", "wait"),
			`</span>`)
	}
}

// holds adds the holders of a resource, and links to pages about the resource.
func (h *lockHTML) holds(l locks.NodeList) {
	own := l.Node.Own()
	for i := range own {
		h.hold(l, &own[i])
	}
	if more := l.Node.OwnMore(); more > 0 {
		h.Add(`<p class="none">`, words.Figure(more, "more holder", "more holders"),
			` in the <a href="/api/v1/locks">JSON</a></p>`)
	}
	of := InQuery(l.Node.Resource)
	h.Add(`<p class="links"><a href="/locks/timeline?resource=`, of, `">Timeline</a> `+
		`<a href="/locks/contention?resource=`, of, `">Contention</a> `+
		`<a href="/locks/upcoming?resource=`, of, `">Upcoming conflicts</a> `+
		`<a href="/runs?resource=`, of, `">Runs</a></p>`)
}

// hold adds a holder of a resource, and the details of its lock.
func (h *lockHTML) hold(list locks.NodeList, l *locks.Lock) {
	h.Add(`<div class="hold"><div><p>Held for <strong>`)
	h.Passed(words.At(list.Now, l.Since))
	h.Add(`</strong>`)
	if usual := l.Usual(list.Now); usual != "" {
		h.Add(`, usually `, usual, `,`)
	}
	h.Add(` by `)
	h.Holder(l.Holder.Job)
	h.Add(` <span class="sub">on <bdi>`, words.Cut(l.Holder.Replica, 100), `</bdi>`)
	if l.Holder.Run != "" {
		h.Add(`, run `)
		h.Run(l.Holder.Run)
	}
	h.Add(`</span></p><dl class="terms"><div><dt>Mode</dt><dd>`)
	h.mode(l)
	h.Add(`</dd></div><div><dt>Since</dt><dd>`)
	h.Clock(words.At(list.Now, l.Since))
	h.Add(`</dd></div><div><dt><abbr title="expiry of its replica's session; a live replica ` +
		`renews it every few seconds">Session expires</abbr></dt><dd>`)
	h.expires(list.Now, l, `in `)
	h.AddIf(l.ExpiresAt.After(list.Now), `, renewed every few seconds`)
	h.Add(`</dd></div><div><dt>Token</dt><dd>`, fmt.Sprint(l.Token), `</dd></div>`)
	if list.Node.Kind != "job" {
		h.Add(`<div><dt><abbr title="the state of the memcached lock">Advisory lock</abbr></dt>`+
			`<dd><span class="stage `, string(l.Advisory), `">`, locks.AdvisoryWords(*l),
			`</span></dd></div>`)
	}
	h.Add(`</dl></div> `)
	if list.Actions {
		h.release(true, l)
	}
	h.Add("</div>\n")
}

// resourceRows returns the rows of resources that are held or waited for.
func resourceRows(now time.Time, list []locks.ResourceState, actions bool) template.HTML {
	rows := lockRows{now: now, actions: actions}
	for i := range list {
		if r := &list[i]; r.State == locks.HeldItself {
			rows.held(r)
		} else {
			rows.notHeld(r)
		}
	}
	return rows.Fragment()
}

// lockRows builds the rows of resources.
type lockRows struct {
	lockHTML
	now     time.Time
	actions bool // the viewer may release locks
}

// columns returns how many columns a row has besides that of the resource.
func (h *lockRows) columns() int {
	if h.actions {
		return 7
	}
	return 6
}

// name adds a resource and the number of runs that wait for it.
func (h *lockRows) name(r *locks.ResourceState) {
	h.Add(`<th role="rowheader" scope="row" class="wide"><bdi class="res">`, r.Resource, `</bdi>`)
	if r.Waiting > 0 {
		h.Add(` <span class="badge waiting">`, words.Figure(r.Waiting, "waits", "wait"), `</span>`)
	}
	h.Add(`</th>`)
}

// held adds a row for each lock of a resource.
func (h *lockRows) held(r *locks.ResourceState) {
	list := r.LocksShown()
	for i := range list {
		l := &list[i]
		h.Add(`<tr role="row" data-key="`, Key("lock", r.Resource, strconv.Itoa(i)), `">`)
		h.name(r)
		h.Add(`<td role="cell" class="wide full"> `)
		h.Holder(l.Holder.Job)
		h.Add(` <span class="sub">on <bdi>`, l.Holder.Replica, `</bdi> `)
		h.Run(l.Holder.Run)
		h.Add(`</span></td><td role="cell" data-label="Held for" class="num">`)
		h.Passed(words.At(h.now, l.Since))
		if usual := l.Usual(h.now); usual != "" {
			h.Add(` <span class="sub">usually `, usual, `</span>`)
		}
		h.Add(`</td><td role="cell" data-label="Session expires in" class="num p3 back">`)
		h.expires(h.now, l, "")
		h.Add(`</td><td role="cell" data-label="Token" class="num p4 back">`, fmt.Sprint(l.Token),
			`</td><td role="cell" data-label="Mode" class="p3 back">`)
		h.mode(l)
		h.Add(`</td><td role="cell" data-label="Advisory lock" class="p3 back">`+
			`<span class="stage `, string(l.Advisory), `">`, string(l.Advisory), `</span></td>`)
		if h.actions {
			h.Add(`<td role="cell" class="num">`)
			h.release(false, l)
			h.Add(`</td>`)
		}
		h.Add("</tr>\n")
	}
	if more := r.LocksMore(); more > 0 {
		h.Add(`<tr role="row" data-key="`, Key("locks", r.Resource), `"><td role="cell" colspan="`,
			strconv.Itoa(h.columns()+1), `" class="full">`,
			words.Figure(more, "more holder", "more holders"), "</td></tr>\n")
	}
}

// notHeld adds the row of a resource without a lock of its own.
func (h *lockRows) notHeld(r *locks.ResourceState) {
	h.Add(`<tr role="row" data-key="`, Key("lock", r.Resource, "0"), `">`)
	h.name(r)
	h.Add(`<td role="cell" colspan="`, strconv.Itoa(h.columns()), `" class="wide full">`)
	switch r.State {
	case locks.HeldAbove:
		for i, l := range r.LocksShown() {
			h.AddIf(i > 0, `; `)
			h.Add(`covered by the `, string(l.Mode), ` lock on <bdi>`, l.Resource, `</bdi> of `)
			h.Holder(l.Holder.Job)
		}
	case locks.HeldPartly:
		h.AddText(words.Figure(r.Beneath, "lock", "locks") + " within it")
	default:
		h.Add(`free`)
	}
	h.Add("</td></tr>\n")
}
