package configs

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/internal/zone"
	"github.com/holdfast-dev/holdfast/locking"
)

// checkJobs checks all jobs.
func (c *checker) checkJobs() {
	c.checked = make([]Job, 0, min(c.jobsGiven(), sizedAtOnce))
	for i := range c.config.Jobs {
		if c.full() {
			break
		}
		path := itemPath("jobs", i)
		c.checkWritten(&c.config.Jobs[i], path)
		for len(c.paths) < len(c.checked) {
			c.paths = append(c.paths, path)
		}
	}
	c.checkBuiltJobs()
	c.config.Jobs = c.checked
}

// sizedAtOnce bounds the number of jobs for which the list of checked jobs gets its size at once. A
// file with mistakes can give more jobs than are ever checked.
const sizedAtOnce = 1 << 17

// jobsGiven returns the number of jobs, with those of for_each.
func (c *checker) jobsGiven() int {
	n := len(c.builtJobs)
	for i := range c.config.Jobs {
		n += max(len(c.config.Jobs[i].ForEach.items), 1)
	}
	return n
}

// checkWritten expands a for_each job to its instances, checks the job, and adds it to the table.
func (c *checker) checkWritten(written *Job, path string) {
	if c.near(path).value.kind != kindMapping {
		c.checked = append(c.checked, *written)
		return
	}
	instances := c.instances(written, path)
	for i := range instances {
		one := &instances[i]
		c.checkJob(one, path)
		one.settle()
		if one.Schedule.String() == "" && c.given(keyPath(path, "schedule")) {
			c.unread[one.Name] = true
		}
		c.checked = append(c.checked, one.Job)
	}
}

func (c *checker) checkJob(one *instance, path string) {
	j := &one.Job
	c.checkName(one, keyPath(path, "name"))
	c.checkSchedule(j, path)
	c.checkJobDatabase(j, keyPath(path, "database"))
	c.checkResources(j, path, one.params)
	c.checkOverlap(j, keyPath(path, "overlap"))
	c.checkDeadline(j, path)
	c.checkGroup(j, keyPath(path, "group"))
	c.checkHandler(j, path)
	c.checkOverridable(j, keyPath(path, "overridable"))
}

func (c *checker) checkOverridable(j *Job, path string) {
	keys := j.Overridable
	var params []string // nil: any, or the handler is not known
	if _, known := slices.BinarySearch(c.names, j.Handler); known {
		params = c.handlers.ParamNames(j.Handler)
	}
	for i, key := range keys {
		at := itemPath(path, i)
		switch {
		case !c.sound(at):
		case key == "":
			c.fail(at, "found nothing, expected the name of a param")
		case slices.Contains(keys[:i], key):
			c.fail(at, "found %s a second time, expected each param once", c.foundAt(at))
		case params != nil && !slices.Contains(params, key):
			c.fail(at, "unknown param %s%s", c.foundAt(at), suggest.Hint(key, params))
		}
	}
}

func (c *checker) checkName(j *instance, path string) {
	if !c.sound(path) {
		return
	}
	if !c.given(path) {
		c.fail(path, "found nothing, expected the job's name")
		return
	}
	if _, err := locking.Job(j.Name); err != nil || !isName(j.Name) {
		c.fail(path, "found %s, expected %s, and between slashes no empty, \".\" or \"..\" part",
			c.foundAt(path), nameWords)
		return
	}
	first, twice := c.named[j.Name]
	if twice && j.item != "" {
		c.fail(j.item, "found %s, which makes %s a second time, expected each job once; the "+
			"first is in %s",
			c.foundAt(j.item), c.quoted(j.item, j.Name),
			c.whereSpot(first, (*document).whereKey))
		return
	}
	if twice && first.built > 0 { // both have the same name in place of a file
		c.fail(path, "found %s a second time, expected each job once; the first is job %d in Go, "+
			"the second is job %d in Go", c.foundAt(path), first.built, c.number)
		return
	}
	if twice {
		c.fail(path, "found %s a second time, expected each job once; the first is in %s",
			c.foundAt(path), c.whereSpot(first, (*document).whereKey))
		return
	}
	c.named[j.Name] = c.here(path)
}

// zone loads a zone, or reports a mistake at path.
func (c *checker) zone(path, name string) *time.Location {
	if known, ok := c.zones[name]; ok {
		return known
	}
	loaded, err := zone.Load(name)
	if err != nil || name == "" {
		if c.sound(path) && c.given(path) {
			c.fail(path, "found %s, expected a zone by its IANA name, such as UTC or Europe/Berlin",
				c.foundAt(path))
		}
		return nil
	}
	c.zones[name] = loaded
	return loaded
}

func (c *checker) checkOverlap(j *Job, path string) {
	if j.Overlap != "allow" || !c.sound(path) {
		return
	}
	for _, r := range j.Requests {
		if r.Mode == locking.Exclusive {
			c.fail(path, "found allow with an exclusive lock on %s, expected skip or queue: its "+
				"runs could not overlap", r.Resource)
			return
		}
	}
}

func (c *checker) checkHandler(j *Job, path string) {
	at := keyPath(path, "handler")
	if !c.sound(at) {
		return
	}
	if j.Handler == "" {
		c.fail(at, "found nothing, expected the name of a handler")
		return
	}
	if slices.Contains(c.config.Handlers.Disabled, j.Handler) {
		c.fail(at, "found %s, which handlers.disabled names, expected another handler",
			c.foundAt(at))
		return
	}
	if c.handlers == nil {
		return
	}
	if _, known := slices.BinarySearch(c.names, j.Handler); !known {
		c.fail(at, "unknown handler %s%s", c.foundAt(at), suggest.Hint(j.Handler, c.names))
		return
	}
	params := keyPath(path, "params")
	if !c.sound(params) {
		return
	}
	if j.Handler == "http" {
		c.checkURL(j, keyPath(params, "url"))
	}
	mask := redact.New(j.Params.Secrets())
	for _, p := range c.handlers.Check(j.Handler, j.Params.JSON()) {
		c.failKey(c.paramPath(params, p.Key), "%s", mask.Text(p.Message))
	}
}

// checkURL checks the host in the URL of an http job.
func (c *checker) checkURL(j *Job, path string) {
	var params struct{ URL string }
	if json.Unmarshal(j.Params.JSON(), &params) == nil { // else the handler reports it
		c.checkTarget(params.URL, path)
	}
}

// paramPath returns the path of a param from the key that a handler reports.
func (c *checker) paramPath(params, key string) string {
	if key == "" {
		return params
	}
	if exact := keyPath(params, key); c.given(exact) {
		return exact
	}
	if item := keyPath(keyPath(parentPath(params), "for_each"), key); c.given(item) {
		return item
	}
	return params + "." + key
}
