package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// UnlimitedAttempts is the number of attempts of a policy that only Elapsed limits, in a job that
// Go code makes. There, 0 stands for the default.
const UnlimitedAttempts = -1

// BuiltJob is a job that Go code made. It has the job as a text, because programs keep their jobs
// for reloads, and a text takes a fifth of the memory of a Job.
type BuiltJob struct {
	name   string
	text   string
	faults *faults // nil: none, as in most jobs
}

// faults are what was wrong with a job before it was read.
type faults struct {
	err      error // of the encoding
	mistakes []Mistake
}

// NewBuiltJob returns job as a BuiltJob. A zero value stands for the default of its key. In a wait
// policy, a Reserve of locking.NeverReserve stands for 0s in a file. In wait and retry policies,
// UnlimitedAttempts stands for 0 in a file.
//
// The mistakes are those that were found while the job was made. They are reported with all others.
func NewBuiltJob(job Job, mistakes ...Mistake) BuiltJob {
	// Only params that were read from a file can have variables.
	e := &encoder{reveal: true, sparse: true, within: job.read == digest{}}
	e.out.Grow(textSize)
	err := e.encodeStruct(reflect.ValueOf(&job).Elem())
	b := BuiltJob{name: job.Name, text: e.out.String()}
	if err != nil || len(mistakes) > 0 {
		b.faults = &faults{err, mistakes}
	}
	return b
}

// textSize is the size of the text of most jobs, in bytes.
const textSize = 1 << 9

// Name returns the name of the job.
func (b BuiltJob) Name() string { return b.name }

// Text returns the job as a text for ParseJob: the keys whose values are not zero.
func (b BuiltJob) Text() ([]byte, error) {
	if b.faults != nil && b.faults.err != nil {
		return nil, fmt.Errorf("job %q: %w", b.name, b.faults.err)
	}
	return []byte(b.text), nil
}

// Mistake is what is wrong with a value.
type Mistake struct {
	Key     string // of the job, such as schedule; "" for the job as a whole
	Message string // the value found and the values expected
}

// WithBuiltJobs adds jobs to those of the file. They get the same defaults and checks, and both
// kinds may depend on each other. The Problem of a mistake in them names the job instead of a file.
func WithBuiltJobs(jobs ...BuiltJob) Option {
	return func(o *options) { o.built = append(o.built, jobs...) }
}

// NewParams returns v as the params of a job. Its JSON must be an object; nil is an empty one. It
// has no variables: ${NAME} in a text stays as it is.
func NewParams(v any) (Params, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return Params{}, fmt.Errorf("encode params: %w", err)
	}
	value := bytes.TrimSpace(out.Bytes())
	if string(value) == "null" {
		return Params{}, nil
	}
	return Params{value: value, written: bytes.ReplaceAll(value, []byte("${"), []byte("$${"))}, nil
}

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
// own, which lasts until the next one: the trees of many jobs take a lot of memory.
func (c *checker) checkBuiltJobs() {
	file, own := c.document, c.newBuiltDocument()
	defer func() { c.document, c.number = file, 0 }()
	c.document = own
	dec := &decoder{document: own, config: c.config}
	var job Job
	for i, b := range c.builtJobs {
		own.file, c.number = b.place(i), i+1
		if own.full() { // further mistakes are not listed, and take long to find
			own.reportMore(position{}, "")
			return
		}
		clear(own.places)
		clear(own.broken)
		job.start(c.config)
		tree := own.builtTree(b, c.lookup)
		dec.decode(tree, reflect.ValueOf(&job).Elem(), "", "")
		c.checkWritten(&job, "")
	}
}

// newBuiltDocument returns a document for jobs that Go code made. Their mistakes are listed with
// those of d.
func (d *document) newBuiltDocument() *document {
	return &document{built: true, places: map[string]place{}, broken: map[string]bool{},
		mistakes: d.mistakes}
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

// place returns the job in place of a file in the problems of the ith job.
func (b BuiltJob) place(i int) string {
	if b.name == "" {
		return fmt.Sprintf("job %d in Go", i+1)
	}
	return "job " + strconv.Quote(b.name)
}
