package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
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
	e := &encoder{forParse: true, sparse: true, within: job.read == digest{}}
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
// has no variables: ${NAME} stays as it is.
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
	return Params{value: value, written: withoutVariables(value)}, nil
}

// withoutVariables returns compact JSON with ${ in its texts written as $${. It does not change
// names, because the reader does not expand variables in them.
func withoutVariables(value []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(value))
	for {
		start := bytes.IndexByte(value, '"')
		if start < 0 {
			out.Write(value)
			return out.Bytes()
		}
		end := start + 1
		for ; value[end] != '"'; end++ {
			if value[end] == '\\' {
				end++
			}
		}
		literal, rest := value[start:end+1], value[end+1:]
		out.Write(value[:start])
		var text string
		if bytes.HasPrefix(rest, []byte(":")) || !bytes.ContainsAny(literal, `$\`) ||
			json.Unmarshal(literal, &text) != nil || !strings.Contains(text, "${") {
			out.Write(literal)
		} else {
			writeText(&out, strings.ReplaceAll(text, "${", "$${"))
		}
		value = rest
	}
}

// place returns the job in place of a file in the problems of the ith job.
func (b BuiltJob) place(i int) string {
	if b.name == "" {
		return fmt.Sprintf("job %d in Go", i+1)
	}
	return "job " + strconv.Quote(b.name)
}
