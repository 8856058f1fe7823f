package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// Problem is a mistake in a configuration.
type Problem struct {
	File   string `json:"file"`   // or the job, if Go code made it
	Line   int    `json:"line"`   // from 1; 0 for what Go code made
	Column int    `json:"column"` // from 1, in characters; 0 for what Go code made
	// path of the key, such as jobs[0].schedule; "" for the file as a whole
	Key     string `json:"key"`
	Message string `json:"message"`
}

// String returns the problem as one line: file:line:column: key: message.
func (p Problem) String() string {
	place := p.File + ": "
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	if p.Key != "" {
		place += p.Key + ": "
	}
	return place + p.Message
}

// maxProblems is the most mistakes that are listed. The messages of many thousands would take long
// to write.
const maxProblems = 200

// Errors lists the mistakes in a configuration by position, followed by the mistakes in its
// calendar files. It has the first 200 of them, and then says that there are more.
type Errors struct {
	Problems []Problem `json:"problems"`
}

// Error returns one line per problem.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// position is a position in the file; both values start at 1.
type position struct{ line, column int }

// place is the position of a key path in the file.
type place struct {
	key   position // of the key, or of the list element
	value *node
}

// document is a configuration, or a job, while it is read, with positions and mistakes.
type document struct {
	file   string // or the job, if Go code made it
	built  bool   // Go code made it, so it has no lines
	places map[string]place
	broken map[string]bool // paths with a mistake in them, or replaced by the program
	*mistakes
}

// mistakes lists the mistakes of a document, and of the jobs that Go code adds to it.
type mistakes struct {
	problems []Problem
	more     *Problem // says that more mistakes were found than are listed
}

func newDocument(file string) *document {
	return &document{file: file, places: map[string]place{}, broken: map[string]bool{},
		mistakes: &mistakes{}}
}

// problem returns a mistake at pos.
func (d *document) problem(pos position, path, message string) Problem {
	if d.built {
		return Problem{File: d.file, Key: path, Message: message}
	}
	return Problem{File: d.file, Line: max(pos.line, 1), Column: max(pos.column, 1), Key: path,
		Message: message}
}

// report adds a mistake at pos. It cuts the message to one line.
func (d *document) report(pos position, path, format string, args ...any) {
	if d.full() {
		d.reportMore(pos, path)
		return
	}
	d.add(d.problem(pos, path, oneLine(fmt.Sprintf(format, args...))))
}

// reportMore says that the mistakes from this one on are not listed.
func (d *document) reportMore(pos position, path string) {
	if d.more == nil {
		more := d.problem(pos, path, fmt.Sprintf("found more than %d mistakes, the others are "+
			"not listed", maxProblems))
		d.more = &more
	}
	d.breaks(path)
}

// full reports whether no more mistakes are listed.
func (m *mistakes) full() bool { return len(m.problems) >= maxProblems }

func (d *document) add(p Problem) {
	d.problems = append(d.problems, p)
	d.breaks(p.Key)
}

// reportIn adds a mistake in a line of another file, which the key names.
func (d *document) reportIn(file string, line int, path, message string) {
	if d.full() {
		d.reportMore(d.near(path).value.pos, path)
		return
	}
	d.add(Problem{File: file, Line: line, Column: 1, Key: path, Message: oneLine(message)})
}

func (d *document) breaks(path string) {
	for at := path; at != "" && !d.broken[at]; at = parentPath(at) {
		d.broken[at] = true
	}
}

// fail reports a mistake at the value of path, or at its nearest parent in the file.
func (d *document) fail(path, format string, args ...any) {
	d.report(d.near(path).value.pos, path, format, args...)
}

// failKey is fail at the key instead of the value.
func (d *document) failKey(path, format string, args ...any) {
	d.report(d.near(path).key, path, format, args...)
}

func (d *document) near(path string) place {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		if path == "" {
			return place{key: position{1, 1}, value: &node{pos: position{1, 1}}}
		}
		path = parentPath(path)
	}
}

// whereKey names the place of a key in a message.
func (d *document) whereKey(path string) string { return d.where(path, d.near(path).key) }

// whereValue names the place of a value in a message.
func (d *document) whereValue(path string) string { return d.where(path, d.near(path).value.pos) }

func (d *document) where(path string, pos position) string {
	if d.built {
		return path
	}
	return fmt.Sprintf("line %d", pos.line)
}

// given reports whether the file has the key.
func (d *document) given(path string) bool {
	_, ok := d.places[path]
	return ok
}

// sound reports whether path has no mistakes in it so far, and the program does not replace it.
func (d *document) sound(path string) bool { return !d.broken[path] }

// firstGiven returns the first path that is in the file, or the first path.
func (d *document) firstGiven(paths ...string) string {
	for _, path := range paths {
		if d.given(path) {
			return path
		}
	}
	return paths[0]
}

// err returns the mistakes so far as *Errors, or nil.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		return cmp.Or(d.order(a)-d.order(b), strings.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	problems := slices.Compact(d.problems)
	if d.more != nil {
		problems = append(problems, *d.more)
	}
	return &Errors{Problems: problems}
}

// order sorts the configuration before its calendar files.
func (d *document) order(p Problem) int {
	if p.File == d.file {
		return 0
	}
	return 1
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if runes.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
