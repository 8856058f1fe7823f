package configs

import (
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// WithJobs lets ParseJob check the job's dependencies against the configuration's jobs and the
// given ones, by name. Without it they are not checked.
func WithJobs(schedules map[string]schedule.Schedule) Option {
	return func(o *options) { o.jobs = schedules }
}

// ParseJob reads one job for this configuration: a mapping in YAML or JSON, as one entry of jobs
// would be, with the same defaults and checks. In errors, name is the file, and keys are relative
// to the job. Every mistake is returned at once, as *Errors. ParseJob adds the default schema to
// tables without one. So the text that Job.MarshalJSON returns gives the same job in another
// configuration that has the calendars and the handler. The configuration is not changed, and may
// have a job of the same name.
//
// Only the params may have variables, and only those of AddedJobs.AllowedEnv:
// a client that adds a job must not read the environment of a replica.
func (c *Config) ParseJob(name string, data []byte, opts ...Option) (*Job, error) {
	o := newOptions(opts)
	d := newDocument(name)
	var job Job
	job.start(c)
	root := d.parseYAML(data)
	if root == nil && len(d.problems) == 0 {
		d.report(position{1, 1}, "", "found nothing, expected a job")
	}
	if root != nil {
		env := environment{lookup: o.lookup, added: true, allowed: c.AddedJobs.AllowedEnv}
		tree := d.buildTree(root, string(data), env)
		dec := &decoder{document: d, config: c, folder: filepath.Dir(name)}
		dec.decode(tree, reflect.ValueOf(&job).Elem(), "", "")
		if tree.kind == kindMapping {
			newChecker(d, c, o.handlers).checkAlone(&job, o)
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return &job, nil
}

// checkAlone is checkJob for a job outside the configuration.
func (c *checker) checkAlone(j *Job, o options) {
	c.alone = true
	c.setTargets()
	c.checkOutsideParams(c.near("").value, "")
	for i := range c.config.Calendars {
		calendar := &c.config.Calendars[i]
		c.calendars[calendar.Name] = calendar.Calendar
	}
	for other := range c.config.otherJobs() {
		for _, r := range other.Requests {
			if r.Resource.Kind() != locking.KindTable && other.Name != j.Name {
				c.uses[r.Resource.Path()] = use{slots: r.Slots, job: other.Name}
			}
		}
	}
	if c.given("for_each") {
		c.failKey("for_each", "found for_each, expected one job: each item's is added by itself")
		return
	}
	one := instance{Job: *j, params: &node{kind: kindMapping}}
	if c.given("params") {
		one.params = c.near("params").value
	}
	c.checkJob(&one, "")
	*j = one.Job
	if c.given("params") {
		c.checkVariables("params", c.near("params").value)
	}
	c.checkFollows(j, o.jobs)
	if len(c.problems) == 0 { // else the job is not returned
		c.qualify(j.Tables, "tables")
		c.qualify(j.ReadTables, "read_tables")
	}
}

// checkOutsideParams refuses variables outside of params, because the other keys are stored and
// shown with their values.
func (c *checker) checkOutsideParams(n *node, path string) {
	if n.expanded {
		c.fail(path, "found %s, expected a text without variables: a job that is added may have "+
			"them only in params", shorten(n.written))
	}
	for _, e := range n.entries {
		if at := keyPath(path, e.name); at != "params" {
			c.checkOutsideParams(e.value, at)
		}
	}
	for i, item := range n.items {
		c.checkOutsideParams(item, itemPath(path, i))
	}
}

// checkVariables refuses variables outside of text. They are stored as written, in JSON, which
// requires quotes.
func (c *checker) checkVariables(path string, n *node) {
	if n.expanded && n.kind != kindText && n.kind != kindInvalid {
		c.fail(path, "found %s without quotes, expected it in quotes, as text: a job that is "+
			"added keeps its variables as they are written", shorten(n.written))
	}
	for _, e := range n.entries {
		c.checkVariables(keyPath(path, e.name), e.value)
	}
	for i, item := range n.items {
		c.checkVariables(itemPath(path, i), item)
	}
}

// checkFollows is checkAfter for a single job and others.
func (c *checker) checkFollows(j *Job, others map[string]schedule.Schedule) {
	if others == nil || j.Schedule.String() == "" && c.given("schedule") {
		return
	}
	schedules := maps.Clone(others)
	for other := range c.config.otherJobs() {
		schedules[other.Name] = other.Schedule
	}
	schedules[j.Name] = j.Schedule
	for _, m := range schedule.CheckAfter(schedules) {
		if m.Job == j.Name || m.N < 0 { // cycles among the others do not exist without this job
			at := c.afterPath("schedule", m.N)
			c.fail(at, "%s", m.Text(c.quoted(at, m.Name)))
		}
	}
}

var plainIdentifier = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// qualify adds the default schema to table names without one.
func (c *checker) qualify(tables []string, path string) {
	schema := c.config.DefaultSchema
	if !plainIdentifier.MatchString(schema) {
		schema = `"` + strings.ReplaceAll(schema, `"`, `""`) + `"`
	}
	params := c.near("params").value
	if !c.given("params") {
		params = &node{kind: kindMapping}
	}
	for i, name := range tables {
		filled, ok := c.fill(itemPath(path, i), name, params, `/."`)
		if !ok {
			continue
		}
		one, err := locking.Table(filled, "one")
		other, errOther := locking.Table(filled, "other")
		if err == nil && errOther == nil && one != other {
			tables[i] = schema + "." + strings.TrimSpace(name)
		}
	}
}
