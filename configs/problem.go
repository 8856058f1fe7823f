package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one mistake in a configuration.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in characters
	// path of the key, such as jobs[0].schedule; "" for the file as a whole
	Key     string `json:"key"`
	Message string `json:"message"`
}

// String returns the problem as one line: file:line:column: key: message.
func (p Problem) String() string {
	place := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Key != "" {
		place += p.Key + ": "
	}
	return place + p.Message
}

// Errors is every mistake found in one configuration, sorted by position, and
// behind them those in the files of its calendars.
type Errors struct {
	Problems []Problem `json:"problems"`
}

// Error returns one line a problem.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// position is a place in the file; both count from 1.
type position struct{ line, column int }

// place is where a key path stands in the file.
type place struct {
	key   position // of the key; of the element in a list
	value *node
}

// document is one configuration while it is read: where everything stands and
// what is wrong with it so far.
type document struct {
	file     string
	places   map[string]place
	problems []Problem
	broken   map[string]bool // paths with a problem at or beneath them
}

func newDocument(file string) *document {
	return &document{file: file, places: map[string]place{}, broken: map[string]bool{}}
}

// report adds a problem at pos. The message is kept to one line.
func (d *document) report(pos position, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: max(pos.line, 1), Column: max(pos.column, 1), Key: path,
		Message: oneLine(fmt.Sprintf(format, args...)),
	})
	d.breaks(path)
}

// reportIn adds a problem in a line of another file, which the key names.
func (d *document) reportIn(file string, line int, path, message string) {
	d.problems = append(d.problems,
		Problem{File: file, Line: line, Column: 1, Key: path, Message: oneLine(message)})
	d.breaks(path)
}

func (d *document) breaks(path string) {
	for at := path; at != "" && !d.broken[at]; at = parentPath(at) {
		d.broken[at] = true
	}
}

// fail reports a problem where the value at path stands, or the nearest thing
// around it that the file has.
func (d *document) fail(path, format string, args ...any) {
	d.report(d.near(path).value.pos, path, format, args...)
}

// failKey is fail at the key and not at its value.
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

// given reports whether the file has the key.
func (d *document) given(path string) bool {
	_, ok := d.places[path]
	return ok
}

// sound reports whether nothing at or beneath path has a problem so far.
func (d *document) sound(path string) bool { return !d.broken[path] }

// firstGiven returns the first of the paths that the file has, or the first.
func (d *document) firstGiven(paths ...string) string {
	for _, path := range paths {
		if d.given(path) {
			return path
		}
	}
	return paths[0]
}

// err returns the problems so far as *Errors, or nil.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		return cmp.Or(d.order(a)-d.order(b), strings.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Errors{Problems: slices.Compact(d.problems)}
}

// order puts the configuration before the files that it names.
func (d *document) order(p Problem) int {
	if p.File == d.file {
		return 0
	}
	return 1
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
