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

// Handlers describes the handlers of a program.
type Handlers interface {
	// Check returns the mistakes in the params, a JSON object. It is called only for handlers in
	// Names.
	Check(handler string, params json.RawMessage) []ParamProblem
	// ParamNames returns the keys that the params of the handler can have, or nil if it can have
	// any. It is called only for handlers in Names.
	ParamNames(handler string) []string
	// Names returns the names of all handlers, sorted.
	Names() []string
}

// ParamProblem is a mistake that a handler finds in a job's params.
type ParamProblem struct {
	Key     string // path of the param, such as a.b or a[0]; "" for the params as a whole
	Message string // the value found and the values expected
}

type options struct {
	handlers Handlers
	lookup   func(string) (string, bool)
	jobs     map[string]schedule.Schedule // possible dependencies of a single job; nil: any
	built    []BuiltJob
	replaced []string // keys
}

func newOptions(opts []Option) options {
	o := options{lookup: os.LookupEnv}
	for _, option := range opts {
		option(&o)
	}
	return o
}

// Option changes how a configuration is read.
type Option func(*options)

// WithHandlers checks every job's handler and params. Without it neither is checked.
func WithHandlers(h Handlers) Option { return func(o *options) { o.handlers = h } }

// WithEnv replaces os.LookupEnv for ${NAME}.
func WithEnv(lookup func(name string) (value string, set bool)) Option {
	return func(o *options) { o.lookup = lookup }
}

// WithReplaced names keys, such as database.url, whose values the program replaces afterwards.
// The rules for their values are not checked, and neither is what depends on them. So the program
// must call [Build] with its own values. A value of a wrong type is still a mistake, and so is an
// unset ${NAME}.
func WithReplaced(keys ...string) Option {
	return func(o *options) { o.replaced = append(o.replaced, keys...) }
}

// Load reads the file at path. It returns mistakes in the file as *Errors, and wraps the system's
// error if the file cannot be read.
func Load(path string, opts ...Option) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, opts...)
}

// Parse reads data. Name is the file's name in errors, and its folder is the base of *_file paths.
// Parse returns all mistakes at once, as *Errors.
func Parse(name string, data []byte, opts ...Option) (*Config, error) {
	return newDocument(name).parseConfig(data, filepath.Dir(name), newOptions(opts))
}

// parseConfig is Parse. Relative paths in the data are those of folder.
func (d *document) parseConfig(data []byte, folder string, o options) (*Config, error) {
	config := Defaults()
	config.folder = folder
	var tree *node
	if root := d.parseYAML(data); root != nil {
		tree = d.buildTree(root, string(data), environment{lookup: o.lookup})
	}
	c := newChecker(d, &config, o.handlers)
	if d.takesBuiltJobs(tree) {
		c.builtJobs, c.lookup = o.built, o.lookup
	}
	if tree != nil {
		dec := &decoder{document: d, config: &config, folder: folder}
		dec.decode(tree, reflect.ValueOf(&config).Elem(), "", "")
	}
	for _, key := range o.replaced {
		d.broken[key] = true
	}
	c.check()
	if err := d.err(); err != nil {
		return nil, err
	}
	if config.Replica.Name == "" {
		config.Replica.Name, config.Replica.Drawn = drawnName(), true
	}
	config.markRead()
	return &config, nil
}

// drawnName returns a name that distinguishes replicas on one host.
func drawnName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "replica"
	}
	suffix := make([]byte, 3)
	_, _ = rand.Read(suffix) // never fails
	return host + "-" + hex.EncodeToString(suffix)
}
