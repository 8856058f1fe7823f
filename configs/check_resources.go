package configs

import (
	"strings"

	"github.com/holdfast-dev/holdfast/locking"
)

// use is how a job locks a named resource, with its place.
type use struct {
	slots int
	at    spot
	job   string // set if the job is not in the checked text
}

// checkResources normalizes the resources of the job.
func (c *checker) checkResources(j *Job, path string, params *node) {
	names := len(j.Tables) + len(j.ReadTables) + len(j.Resources)
	if names > locking.MaxRequests { // to check each of them would take long
		c.fail(path, "found %d tables and resources, expected at most %d", names,
			locking.MaxRequests)
		return
	}
	written := map[locking.Resource]string{}
	var requests []locking.Request
	for i, name := range j.Tables {
		at := itemPath(keyPath(path, "tables"), i)
		if table, ok := c.table(j, at, name, params); ok {
			written[table] = at
			requests = append(requests, locking.Request{Resource: table, Mode: locking.Exclusive})
		}
	}
	for i, name := range j.ReadTables {
		at := itemPath(keyPath(path, "read_tables"), i)
		table, ok := c.table(j, at, name, params)
		if first, both := written[table]; ok && both {
			c.fail(at, "found %s here and %s in tables (%s), which is the same table %s; "+
				"expected it in one of them: a job that writes a table may also read it",
				c.foundAt(at), c.foundAt(first), c.whereValue(first), table)
		} else if ok {
			requests = append(requests, locking.Request{Resource: table, Mode: locking.Shared})
		}
	}
	for i, r := range j.Resources {
		if request, ok := c.resource(itemPath(keyPath(path, "resources"), i), r, params); ok {
			requests = append(requests, request)
		}
	}
	normal, err := locking.Normalize(requests)
	if err != nil {
		c.fail(path, "found resources that cannot be locked together: %v", err)
		return
	}
	j.Requests = normal
}

func (c *checker) table(j *Job, path, name string, params *node) (locking.Resource, bool) {
	filled, ok := c.fill(path, name, params, `/."`)
	if !ok {
		return locking.Resource{}, false
	}
	table, err := locking.TableIn(j.Database, filled, c.config.DefaultSchema)
	if err != nil {
		c.failName(path, err)
		return locking.Resource{}, false
	}
	prefix, _, _ := strings.Cut(table.Path(), ":")
	if _, taken := c.config.Databases[prefix]; taken && j.Database == "" {
		c.fail(path, "found %s, which begins with the name of a database and a colon; expected "+
			"another schema, or the key database of the job", c.foundAt(path))
		return locking.Resource{}, false
	}
	return table, true
}

func (c *checker) resource(path string, r Resource, params *node) (locking.Request, bool) {
	at := keyPath(path, "name")
	if c.near(path).value.kind != kindMapping || !c.sound(path) {
		return locking.Request{}, false
	}
	if !c.given(at) {
		c.fail(at, "found nothing, expected the resource's name")
		return locking.Request{}, false
	}
	filled, ok := c.fill(at, r.Name, params, "/")
	if !ok {
		return locking.Request{}, false
	}
	name, request := locking.Path, locking.Request{Mode: locking.Exclusive}
	if r.Slots > 0 {
		name, request = locking.Slot, locking.Request{Mode: locking.Slotted, Slots: r.Slots}
	}
	var err error
	if request.Resource, err = name(filled); err != nil {
		c.failName(at, err)
		return locking.Request{}, false
	}
	return request, c.agree(request, at)
}

// failName reports an invalid name. The error quotes the name, which is hidden if it comes from a
// variable.
func (c *checker) failName(path string, err error) {
	problem := strings.TrimPrefix(err.Error(), locking.ErrBadName.Error()+": ")
	if c.near(path).value.expanded {
		problem = c.foundAt(path)
	}
	c.fail(path, "found a name that cannot be locked: %s, expected table, schema.table or a path "+
		"without control characters", problem)
}

// agree refuses a name with different numbers of slots, or with slots in one job and without in
// another.
func (c *checker) agree(r locking.Request, path string) bool {
	first, known := c.uses[r.Resource.Path()]
	if !known {
		c.uses[r.Resource.Path()] = use{slots: r.Slots, at: c.here(path)}
		return true
	}
	if first.slots == r.Slots {
		return true
	}
	if first.job != "" {
		c.fail(path, "found %s with %s, expected %s as in job %s: all who name a resource must "+
			"mean the same",
			c.foundAt(path), slotWords(r.Slots), slotWords(first.slots), first.job)
		return false
	}
	c.fail(path, "found %s with %s, expected %s as in %s: all who name a resource must mean "+
		"the same",
		c.foundAt(path), slotWords(r.Slots), slotWords(first.slots),
		c.whereSpot(first.at, (*document).whereValue))
	return false
}
