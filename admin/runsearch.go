package admin

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// runTerm is a part of a search that names its filter, such as table:public/orders.
type runTerm struct{ name, value string }

// termNames are the names of terms. A table is a resource, and a run is found by the beginning of
// its id.
func termNames() []string {
	return []string{"job", "group", "table", "resource", "reason", "replica", "error", "state",
		"run", "backfill"}
}

// runSearch is the text of the search field of the list of runs.
type runSearch struct {
	terms  []runTerm
	free   string // the text without the terms
	quoted bool   // free was in quotation marks, so it is no name
}

// newRunSearch splits the text of a search. Values with spaces are in quotation marks. That of
// error needs none: it is the text up to the next term.
func newRunSearch(text string) (s runSearch) {
	var free []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, after, isTerm := cutTerm(text)
		if !isTerm {
			s.quoted = len(free) == 0 && strings.HasPrefix(text, `"`)
			var word string
			word, text = cutWord(text)
			free = append(free, word)
			continue
		}
		value, rest := cutWord(after)
		for name == "error" && !strings.HasPrefix(after, `"`) {
			next := strings.TrimSpace(rest)
			if _, _, isTerm := cutTerm(next); isTerm || next == "" {
				break
			}
			var word string
			word, rest = cutWord(next)
			value = strings.TrimLeft(value+" "+word, " ") // the colon may have blanks after it
		}
		s.terms, text = append(s.terms, runTerm{name, value}), rest
	}
	s.free = strings.Join(free, " ")
	return s
}

// cutTerm returns the name of the term at the beginning of a text, and what follows.
func cutTerm(text string) (name, after string, ok bool) {
	name, after, ok = strings.Cut(text, ":")
	name = strings.ToLower(name)
	return name, after, ok && slices.Contains(termNames(), name)
}

// cutWord returns the first word of a text, or the text in quotation marks, and what follows.
func cutWord(text string) (word, after string) {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		word, after, _ = strings.Cut(quoted, `"`)
		return word, after
	}
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		return text[:end], text[end:]
	}
	return text, ""
}

// knownNames are the names that a search compares with its text, each sorted.
type knownNames struct{ jobs, groups, resources, replicas []string }

// readNames returns all names, or none if the sender of the request may not see those of all jobs.
func readNames(ctx context.Context, r *reader) (n knownNames, err error) {
	if !maySuggest(ctx) {
		return n, nil
	}
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return n, err
	}
	index, err := r.lists.jobIndex(ctx, snap.Now)
	if err != nil {
		return n, err
	}
	for i := range index.states {
		n.jobs = append(n.jobs, index.states[i].Job)
	}
	groups, err := r.Groups(ctx, snap.Now)
	if err != nil {
		return n, err
	}
	for _, g := range groups {
		n.groups = append(n.groups, g.Name)
	}
	resources, err := r.lock.Resources(ctx, snap.Now)
	if err != nil {
		return n, err
	}
	for _, resource := range resources {
		n.resources = append(n.resources, resource.String())
	}
	for _, replica := range snap.Replicas {
		n.replicas = append(n.replicas, replica.Name)
	}
	for _, names := range []*[]string{&n.groups, &n.resources, &n.replicas} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return n, nil
}

// foundFilter is what a search means: parameters of the list of runs, or the beginning of the id of
// a run.
type foundFilter struct {
	params url.Values
	run    string
}

// filter returns what the search means. Its mistakes are errors of the kind *param.Error.
func (n knownNames) filter(s runSearch) (f foundFilter, err error) {
	f.params = url.Values{}
	for _, term := range s.terms {
		if term.value == "" {
			return f, param.Errorf("%s: needs a value, such as %s", term.name,
				exampleOf(term.name))
		}
		if err := n.add(&f, term); err != nil {
			return f, err
		}
	}
	switch {
	case s.free == "":
	case s.quoted:
		f.params.Set("error", s.free)
	default:
		name, value := n.meaning(s.free)
		f.params.Set(name, value)
	}
	return f, nil
}

// exampleOf returns an example of a term.
func exampleOf(name string) string {
	examples := map[string]string{"job": "job:etl/*", "group": "group:nightly",
		"table": "table:public/orders", "resource": "resource:path:exports",
		"reason": "reason:lock_held", "replica": "replica:web-1", "error": "error:timeout",
		"state": "state:failed", "run": "run:0195a3f2"}
	if example, ok := examples[name]; ok {
		return example
	}
	return name + ":…"
}

// add adds the filter of a term.
func (n knownNames) add(f *foundFilter, term runTerm) error {
	name, value := term.name, term.value
	switch name {
	case "run":
		f.run = value
		return nil
	case "job":
		value = n.jobNamed(value)
	case "group":
		value = completed(n.groups, value)
	case "replica":
		value = completed(n.replicas, value)
	case "table", "resource":
		name = "resource"
		resource, err := n.resourceNamed(value)
		if err != nil {
			return param.Errorf("%q is no name of a table or resource: %s", words.Cut(value, 100),
				words.OneLine(err.Error(), 200))
		}
		value = resource
	case "reason":
		reason, known := reasonNamed(value)
		if !known {
			return param.Errorf("no reason is %q%s", words.Cut(value, 100),
				suggest.Hint(value, wordsIn(reasons.All())))
		}
		value = string(reason)
	case "state":
		var states []string
		for text := range strings.SplitSeq(value, ",") {
			state, known := stateNamed(text)
			if !known {
				return param.Errorf("no state is %q%s", words.Cut(text, 100),
					suggest.Hint(text, wordsIn(jobs.States())))
			}
			states = append(states, string(state))
		}
		value = strings.Join(states, ",")
	case "backfill":
		if _, err := readBackfillID(value); err != nil {
			return err
		}
	}
	f.params.Set(name, value)
	return nil
}

// meaning returns the parameter that a text without a name means: the first kind that has it as a
// name, then the first kind that has names that begin with it, or else an error.
func (n knownNames) meaning(text string) (name, value string) {
	if job := n.jobNamed(text); slices.Contains(n.jobs, job) {
		return "job", job
	}
	resource, err := n.resourceNamed(text)
	if err == nil && slices.Contains(n.resources, resource) {
		return "resource", resource
	}
	for _, kind := range []struct {
		name  string
		names []string
	}{{"replica", n.replicas}, {"group", n.groups}} {
		if found := completed(kind.names, text); slices.Contains(kind.names, found) {
			return kind.name, found
		}
	}
	// part of such a name is more often part of an error
	if state, known := stateNamed(text); known && len(state) == len(text) {
		return "state", string(state)
	}
	reason, known := reasonNamed(text)
	if known && (len(reason) == len(text) || strings.EqualFold(text, words.ShortReason(reason))) {
		return "reason", string(reason)
	}
	if job := n.jobNamed(text); strings.HasSuffix(job, "*") {
		return "job", job
	}
	return "error", text
}

// jobNamed returns the job with the name, or else the prefix of jobs that begin with it, or the
// only job that contains it. If there is none, it returns the text: a job that was deleted has
// runs.
func (n knownNames) jobNamed(text string) string {
	if _, known := slices.BinarySearch(n.jobs, text); known || strings.HasSuffix(text, "*") {
		return text
	}
	place, _ := slices.BinarySearch(n.jobs, text)
	has := func(i int) bool { return i < len(n.jobs) && strings.HasPrefix(n.jobs[i], text) }
	switch {
	case has(place) && has(place+1):
		return text + "*"
	case has(place):
		return n.jobs[place]
	}
	return only(n.jobs, text)
}

// only returns the only name that contains the text, in any case, or else the text.
func only(names []string, text string) string {
	lower, found := strings.ToLower(text), ""
	for _, name := range names {
		if !strings.Contains(strings.ToLower(name), lower) {
			continue
		}
		if found != "" {
			return text
		}
		found = name
	}
	if found == "" {
		return text
	}
	return found
}

// completed returns the name, or the only name that begins with the text, or else the text.
func completed(names []string, text string) string {
	found := ""
	for _, name := range names {
		switch {
		case name == text:
			return text
		case !strings.HasPrefix(strings.ToLower(name), strings.ToLower(text)):
		case found != "":
			return text
		default:
			found = name
		}
	}
	if found == "" {
		return text
	}
	return found
}

// resourceNamed returns the known resource with the name, the only table of this name in any
// schema, or the only resource that contains the text, or else the resource of that name.
func (n knownNames) resourceNamed(text string) (string, error) {
	parsed, err := locking.ParseDisplay(text)
	for _, name := range []string{text, strings.ReplaceAll(text, ".", "/"), parsed.String()} {
		if slices.Contains(n.resources, name) {
			return name, nil
		}
	}
	var tables []string
	for _, name := range n.resources {
		if strings.HasSuffix(strings.ToLower(name), "/"+strings.ToLower(text)) {
			tables = append(tables, name)
		}
	}
	if len(tables) == 1 {
		return tables[0], nil
	}
	if found := only(n.resources, text); found != text {
		return found, nil
	}
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// reasonNamed returns the reason with the name, or with the words that pages use for it, or the
// only one whose name begins with the text.
func reasonNamed(text string) (jobs.Reason, bool) {
	for _, reason := range reasons.All() {
		if strings.EqualFold(text, words.ShortReason(reason)) {
			return reason, true
		}
	}
	return oneNamed(reasons.All(), text)
}

// stateNamed is reasonNamed for states.
func stateNamed(text string) (jobs.State, bool) { return oneNamed(jobs.States(), text) }

func oneNamed[T ~string](all []T, text string) (T, bool) {
	code := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), " ", "_")
	found := completed(wordsIn(all), code)
	return T(found), code != "" && slices.Contains(all, T(found))
}

func wordsIn[T ~string](all []T) []string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = string(v)
	}
	return texts
}

// findRuns returns the address to which a search in the list leads: the list with the filters that
// the text means, beside those of the list, or the page of a run. Mistakes in the text are errors
// of the kind *param.Error.
func (r *reader) findRuns(ctx context.Context, p param.Set, text string) (path string, err error) {
	names, err := readNames(ctx, r)
	if err != nil {
		return "", err
	}
	search := newRunSearch(text)
	if search.terms == nil && !search.quoted && maySuggest(ctx) {
		path, err := findRun(ctx, r, search.free)
		if path != "" || err != nil {
			return path, err
		}
	}
	found, err := names.filter(search)
	if err != nil {
		return "", err
	}
	if found.run != "" {
		if !maySuggest(ctx) {
			return "", param.Errorf("a search by the id of a run needs permission for all jobs")
		}
		path, err := findRun(ctx, r, found.run)
		if path == "" && err == nil {
			err = param.Errorf("no run has an id that begins with %q, expected at least %d digits "+
				"of an id", words.Cut(found.run, 100), leastRunDigits)
		}
		return path, err
	}
	pairs := []string{}
	for name := range found.params {
		pairs = append(pairs, name, found.params.Get(name))
	}
	return runsAt(p, pairs...), nil
}

// findRun returns the page of the run whose id begins with a text, or the search if there are
// several. It returns "" if there is none.
func findRun(ctx context.Context, r *reader, text string) (path string, err error) {
	first, last, ok := idsFrom(text)
	if !ok {
		return "", nil
	}
	found, err := r.Store.RunsBetween(ctx, first, last, 2)
	switch {
	case err != nil:
		return "", fmt.Errorf("runs: %w", err)
	case len(found) == 0:
		return "", nil
	case len(found) == 1:
		return param.RunPath(found[0].ID), nil
	}
	return param.Address("/search", url.Values{"q": {text}}), nil
}
