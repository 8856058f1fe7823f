package configs

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// Handlers answers for the handlers that a program has.
type Handlers interface {
	// Check returns what the handler refuses in the params, an object. It is
	// only asked about handlers that Names has.
	Check(handler string, params json.RawMessage) []ParamProblem
	// Names returns the names of all handlers, sorted.
	Names() []string
}

// ParamProblem is one mistake that a handler finds in a job's params.
type ParamProblem struct {
	Key     string // the param, "" for the params as a whole; a.b or a[0] for what lies within
	Message string // what was found and what is expected
}

type options struct {
	handlers Handlers
	lookup   func(string) (string, bool)
	jobs     map[string]schedule.Schedule // that a job alone may follow; nil: any
}

// Option changes how a configuration is read.
type Option func(*options)

// WithHandlers has every job's handler and params checked. Without it neither is.
func WithHandlers(h Handlers) Option { return func(o *options) { o.handlers = h } }

// WithEnv replaces os.LookupEnv for ${NAME}.
func WithEnv(lookup func(name string) (value string, set bool)) Option {
	return func(o *options) { o.lookup = lookup }
}

// Load reads the file at path. Mistakes in it are returned as *Errors, a file
// that cannot be read as an error that wraps the system's.
func Load(path string, opts ...Option) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, opts...)
}

// Parse reads data. Name stands for the file in errors, and *_file values are
// relative to its folder. Every mistake is returned at once, as *Errors.
func Parse(name string, data []byte, opts ...Option) (*Config, error) {
	o := options{lookup: os.LookupEnv}
	for _, option := range opts {
		option(&o)
	}
	d := newDocument(name)
	config := Defaults()
	if root := d.parseYAML(data); root != nil {
		tree := d.buildTree(root, string(data), o.lookup)
		dec := &decoder{document: d, config: &config, folder: filepath.Dir(name)}
		dec.decode(tree, reflect.ValueOf(&config).Elem(), "", "")
	}
	newChecker(d, &config, o.handlers).check()
	if err := d.err(); err != nil {
		return nil, err
	}
	if config.Replica.Name == "" {
		config.Replica.Name, config.Replica.Drawn = drawnName(), true
	}
	config.markRead()
	return &config, nil
}

// drawnName tells replicas on one host apart.
func drawnName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "replica"
	}
	suffix := make([]byte, 3)
	_, _ = rand.Read(suffix) // never fails
	return host + "-" + hex.EncodeToString(suffix)
}
