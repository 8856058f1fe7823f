package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// ErrNotBegun reports a configuration that was not begun with Defaults, Load or Parse. Build cannot
// know which of its zero values are meant.
var ErrNotBegun = errors.New("not begun with configs.Defaults(), Load or Parse")

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
	return newBuiltJob(&encoder{fields: fieldsByType{}}, job, mistakes)
}

func newBuiltJob(e *encoder, job Job, mistakes []Mistake) BuiltJob {
	e.out.Reset()
	// Only params that were read from a file can have variables.
	e.reveal, e.sparse, e.within = true, true, job.read == digest{}
	err := e.encodeStruct(reflect.ValueOf(&job).Elem())
	b := BuiltJob{name: job.Name, text: e.out.String()}
	if err != nil || len(mistakes) > 0 {
		b.faults = &faults{err, mistakes}
	}
	return b
}

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

// Build completes and checks a configuration that Go code made: it returns what Parse would return
// for a file with the same values and jobs. The configuration begins with [Defaults], or with what
// Load or Parse returned. In a job that Go code made, a zero value means the default. If the
// configuration began with Defaults, a zero value also means the default in an element of a list,
// such as Webhooks, and behind a pointer, such as Tracing. In all other places a zero value means
// zero.
//
// Build returns all mistakes at once, as *Errors, without lines and columns.
func Build(config Config, opts ...Option) (*Config, error) {
	if config.begun == notBegun {
		return nil, fmt.Errorf("configuration: %w", ErrNotBegun)
	}
	o := newOptions(opts)
	var jobs []BuiltJob
	e := &encoder{fields: fieldsByType{}}
	for _, j := range config.Jobs {
		jobs = append(jobs, newBuiltJob(e, j, nil))
	}
	o.built = append(jobs, o.built...)
	folder, name := config.folder, config.Replica
	if tls := config.Admin.TLS; tls != nil { // relative to the working directory by now
		var err error
		absolute := *tls
		if absolute.CertFile, err = filepath.Abs(tls.CertFile); err == nil {
			absolute.KeyFile, err = filepath.Abs(tls.KeyFile)
		}
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		config.Admin.TLS = &absolute
	}
	config.Jobs = nil
	e = &encoder{fields: e.fields, reveal: true, sparse: config.begun == byDefaults}
	if err := e.encodeStruct(reflect.ValueOf(config)); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	d := newDocument("configuration")
	d.built = true
	built, err := d.parseConfig(e.out.Bytes(), folder, o)
	if err != nil {
		return nil, err
	}
	if built.Replica.Name == name.Name {
		built.Replica.Drawn = name.Drawn
	}
	return built, nil
}

// beginning is how a Config began.
type beginning int

const (
	notBegun beginning = iota
	byDefaults
	byParse
)

// appendBuilt adds jobs that Go code made to the tree of the file, which is nil for an empty one.
func (d *document) appendBuilt(tree *node, o options) *node {
	if tree == nil {
		tree = &node{kind: kindMapping, pos: position{1, 1}}
		d.places[""] = place{key: tree.pos, value: tree}
	}
	if tree.kind != kindMapping {
		return tree // reported when it is decoded
	}
	list := tree.entry("jobs")
	if list == nil {
		list = &node{kind: kindList, pos: position{1, 1}}
		tree.entries = append(tree.entries, entry{"jobs", list})
		d.places["jobs"] = place{key: list.pos, value: list}
	}
	if list.kind != kindList {
		return tree
	}
	d.builtFrom = len(list.items)
	for i, b := range o.built {
		at := itemPath("jobs", len(list.items))
		d.builtNames = append(d.builtNames, builtName(b.name, i))
		value := d.builtTree(b, at, o.lookup)
		d.places[at] = place{key: value.pos, value: value}
		list.items = append(list.items, value)
		if b.faults != nil {
			for _, m := range b.faults.mistakes {
				d.report(position{}, joinPath(at, m.Key), "%s", m.Message)
			}
		}
	}
	return tree
}

// builtTree returns the tree of a job, as if the file had it at path.
func (d *document) builtTree(b BuiltJob, path string, lookup func(string) (string, bool)) *node {
	if b.faults != nil && b.faults.err != nil {
		d.report(position{}, path, "%v", b.faults.err)
		return &node{kind: kindInvalid}
	}
	tree, err := d.jsonTree(b.text, path, environment{lookup: lookup})
	if err != nil {
		d.report(position{}, path, "%v", err)
		return &node{kind: kindInvalid}
	}
	return tree
}

func builtName(name string, i int) string {
	if name == "" {
		return fmt.Sprintf("job %d in Go", i+1)
	}
	return "job " + strconv.Quote(name)
}

func joinPath(path, key string) string {
	if key == "" {
		return path
	}
	return keyPath(path, key)
}

// located returns p with the place of what Go code made: the job and its key, without a line.
func (d *document) located(p Problem) Problem {
	if p.File != d.file {
		return p // in a calendar's file
	}
	if rest, ok := strings.CutPrefix(p.Key, "jobs["); ok && d.builtNames != nil {
		number, key, _ := strings.Cut(rest, "]")
		i, err := strconv.Atoi(number)
		if i -= d.builtFrom; err == nil && i >= 0 && i < len(d.builtNames) {
			return Problem{File: d.builtNames[i], Key: strings.TrimPrefix(key, "."),
				Message: p.Message}
		}
	}
	if d.built {
		p.Line, p.Column = 0, 0
	}
	return p
}

// ErrNotRead reports a Config or a job that differs from what Load, Parse or Build returned. Checks
// and derived values, such as each job's Schedule and Requests, may be missing or wrong.
var ErrNotRead = errors.New("not returned by Load, Parse or Build, or changed since")

// digest identifies a job as it was read, including derived values. A zero digest belongs to a job
// that was not read.
type digest [sha256.Size]byte

// CheckRead returns nil if Load, Parse or Build returned c, and its jobs have not changed since. It
// does not detect changes of other fields. Its errors wrap ErrNotRead, and name the changed jobs.
func (c *Config) CheckRead() error {
	if !c.read {
		return fmt.Errorf("configuration: %w", ErrNotRead)
	}
	var problems []error
	fields := fieldsByType{}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.read != j.digest(fields) {
			problems = append(problems, fmt.Errorf("job %q: %w", j.Name, ErrNotRead))
		}
	}
	return errors.Join(problems...)
}

// markRead records the digests of c and its jobs.
func (c *Config) markRead() {
	c.read, c.begun = true, byParse
	fields := fieldsByType{}
	for i := range c.Jobs {
		c.Jobs[i].read = c.Jobs[i].digest(fields)
	}
}

func (j *Job) digest(fields fieldsByType) digest {
	e := encoder{fields: fields}
	err := e.encodeStruct(reflect.ValueOf(j).Elem())
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %v\n%s\n%q\n", e.out.Bytes(), err, j.Params.JSON(),
		j.Schedule.Fingerprint())
	for _, r := range j.Requests {
		fmt.Fprintf(hash, "%q %s %d\n", r.Resource.Key(), r.Mode, r.Slots)
	}
	return digest(hash.Sum(nil))
}
