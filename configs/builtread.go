package configs

import (
	"cmp"
	"reflect"
	"sync"
)

// takesBuiltJobs reports whether jobs of Go code can be added to those of the tree, which is nil
// for an empty text. They cannot if the text has a mistake in its syntax, or jobs is not a list.
func (d *document) takesBuiltJobs(tree *node) bool {
	if tree == nil {
		return len(d.problems) == 0
	}
	list := tree.entry("jobs")
	return tree.kind == kindMapping && (list == nil || list.kind == kindList)
}

// checkBuiltJobs reads and checks the jobs that Go code made. Each of them is a document of its
// own, which lasts for a window only: the trees of many jobs take a lot of memory. While the jobs
// of a window are checked, those of the next one are read.
func (c *checker) checkBuiltJobs() {
	file := c.document
	defer func() { c.document, c.number = file, 0 }()
	current, next := newWindow(len(c.builtJobs)), newWindow(len(c.builtJobs))
	current.read(c, 0)
	for from := 0; from < len(c.builtJobs); from += len(current) {
		var ahead sync.WaitGroup
		ahead.Go(func() { next.read(c, from+len(current)) })
		full := !c.checkWindow(current, from, file.mistakes)
		ahead.Wait()
		if full {
			return
		}
		current, next = next, current
	}
}

// checkWindow checks the jobs of a window, and adds their mistakes to all. It reports whether
// further mistakes are listed.
func (c *checker) checkWindow(w window, from int, all *mistakes) bool {
	for i := range w[:min(len(w), len(c.builtJobs)-from)] {
		one := &w[i]
		found := one.document.mistakes
		one.document.mistakes = all
		if all.full() { // further mistakes are not listed, and take long to find
			one.document.reportMore(position{}, "")
			return false
		}
		for _, p := range found.problems {
			if all.full() {
				one.document.reportMore(position{}, p.Key)
				break
			}
			all.problems = append(all.problems, p)
		}
		all.more = cmp.Or(all.more, found.more)
		c.document, c.number = &one.document, from+i+1
		c.checkWritten(&one.job, "")
	}
	return true
}

// window has consecutive jobs of Go code that were read, each with its document.
type window []builtRead

type builtRead struct {
	document document
	job      Job
}

// newWindow returns a window for some of n jobs.
func newWindow(n int) window {
	const most = 500
	w := make(window, min(n, most))
	for i := range w {
		w[i].document = document{built: true, places: map[string]place{},
			broken: map[string]bool{}}
	}
	return w
}

// read reads the jobs from a number on.
func (w window) read(c *checker, from int) {
	for i := range w[:max(min(len(w), len(c.builtJobs)-from), 0)] {
		one, d := &w[i], &w[i].document
		d.file, d.mistakes = c.builtJobs[from+i].place(from+i), &mistakes{}
		clear(d.places)
		clear(d.broken)
		one.job.start(c.config)
		tree := d.builtTree(c.builtJobs[from+i], c.lookup)
		dec := &decoder{document: d, config: c.config}
		dec.decode(tree, reflect.ValueOf(&one.job).Elem(), "", "")
	}
}

// builtTree returns the tree of a job, and reports what was wrong before it was read.
func (d *document) builtTree(b BuiltJob, lookup func(string) (string, bool)) *node {
	var wrong faults
	if b.faults != nil {
		wrong = *b.faults
	}
	tree, err := &node{}, wrong.err
	if err == nil {
		tree, err = d.jsonTree(b.text, "", environment{lookup: lookup})
	}
	if err != nil {
		d.report(position{}, "", "%v", err)
	}
	d.places[""] = place{key: tree.pos, value: tree}
	for _, m := range wrong.mistakes {
		d.report(position{}, m.Key, "%s", m.Message)
	}
	return tree
}
