package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report prints the events of go test -json as go test prints them without -json. It also records
// the duration of each test.
type report struct {
	out      io.Writer
	packages map[string]*packageReport
	took     []duration
	counts   map[string]int // number of tests by result: pass, fail, skip
	failed   int            // number of packages that failed, without crashed
	crashed  []string       // packages in which only the race detector failed
}

// packageReport is the output of one package whose tests have not ended.
type packageReport struct {
	tests map[string]*strings.Builder
	order []string // names of tests in the order of their start
	lines []string // of the package itself

	failed bool // a test failed
}

// duration is how long one test took.
type duration struct {
	pkg, test string
	took      time.Duration
}

// event is a line of go test -json; `go doc test2json` describes it.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // s
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: make(map[string]*packageReport),
		counts: make(map[string]int)}
}

// read handles all events. It prints other lines unchanged.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				r.print(string(line))
			} else {
				r.handle(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (r *report) print(text string) {
	// The exit code reports failures even if the output is not read.
	_, _ = io.WriteString(r.out, text)
}

func (r *report) handle(e event) {
	if e.Action == "build-output" {
		r.print(e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageReport{tests: make(map[string]*strings.Builder)}
		r.packages[e.Package] = p
	}
	switch {
	case e.Test == "" && e.Action == "output":
		p.lines = append(p.lines, e.Output)
	case e.Test == "":
		r.endPackage(e, p)
	case e.Action == "output":
		p.test(e.Test).WriteString(e.Output)
	case e.Action == "pass" || e.Action == "skip" || e.Action == "fail":
		r.endTest(e, p)
	}
}

func (p *packageReport) test(name string) *strings.Builder {
	if p.tests[name] == nil {
		p.tests[name] = &strings.Builder{}
		p.order = append(p.order, name)
	}
	return p.tests[name]
}

// endTest prints the output of a failed test.
func (r *report) endTest(e event, p *packageReport) {
	r.counts[e.Action]++
	if !strings.Contains(e.Test, "/") {
		took := time.Duration(e.Elapsed * float64(time.Second))
		r.took = append(r.took, duration{e.Package, e.Test, took})
	}
	if e.Action == "fail" {
		p.failed = true
		r.print(p.test(e.Test).String())
	}
	delete(p.tests, e.Test)
	p.order = slices.DeleteFunc(p.order, func(name string) bool { return name == e.Test })
}

// endPackage prints the last line of a package. If the package failed, it also prints the package's
// output and the output of tests that did not end.
func (r *report) endPackage(e event, p *packageReport) {
	switch e.Action {
	case "pass", "skip":
		if len(p.lines) > 0 {
			r.print(p.lines[len(p.lines)-1])
		}
	case "fail":
		for _, name := range p.order {
			r.print(p.tests[name].String())
		}
		for _, line := range p.lines {
			r.print(line)
		}
		if p.crashed() {
			r.crashed = append(r.crashed, e.Package)
		} else {
			r.failed++
		}
	default: // start
		return
	}
	delete(r.packages, e.Package)
}

// detectorFailed begins the line that the runtime of the race detector prints when a check of its
// own state fails.
const detectorFailed = "ThreadSanitizer: CHECK failed"

// crashed reports whether the race detector failed before any test did.
func (p *packageReport) crashed() bool {
	if p.failed {
		return false
	}
	failed := func(output string) bool { return strings.Contains(output, detectorFailed) }
	for _, test := range p.tests {
		if failed(test.String()) {
			return true
		}
	}
	return slices.ContainsFunc(p.lines, failed)
}

// again returns the arguments of go test that repeat the packages in which only the race detector
// failed. It returns nil if there are none, or if other packages failed.
func (r *report) again(args []string) []string {
	if len(r.crashed) == 0 || r.failed > 0 {
		return nil
	}
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.HasPrefix(arg, "./")
	})
	return append(flags, r.crashed...)
}
