package configs

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// checker checks what involves several values, and derives values from others. It skips values with
// a reported mistake.
type checker struct {
	*document
	config   *Config
	handlers Handlers
	names    []string // of the handlers, sorted
	// Go code made builtJobs, which are added to those of the file; lookup finds their variables.
	fileDocument *document
	builtJobs    []BuiltJob
	lookup       func(string) (string, bool)
	number       int // of the checked job among builtJobs, from 1; 0: it is in the file
	zones        map[string]*time.Location
	// schedules are the parsed schedules that jobs can share.
	schedules map[scheduleKey]schedule.Schedule
	named     map[string]spot // of the first job with a name
	uses      map[string]use  // by resource
	targets   *egress.Rules   // of http jobs and webhooks
	alone     bool            // the checked job is one that is added at run time
	// calendars are the valid calendars by name. A calendar with a mistake is nil.
	calendars map[string]*schedule.Calendar
	checked   []Job           // jobs of the file, then builtJobs
	paths     []string        // of the jobs of the file; the jobs of one for_each share a path
	unread    map[string]bool // jobs whose schedules have mistakes
	single    [1]instance     // of the checked job, without for_each
}

// spot is a place in the file, or in a job that Go code made.
type spot struct {
	path  string
	built int // the number of the job, as in checker; 0: the file
}

// here returns the spot of a path of the document.
func (c *checker) here(path string) spot { return spot{path, c.number} }

// whereSpot names the place of a key or a value in a message: where is whereKey or whereValue.
func (c *checker) whereSpot(s spot, where func(*document, string) string) string {
	if s.built > 0 {
		return c.builtJobs[s.built-1].place(s.built - 1)
	}
	return where(c.fileDocument, s.path)
}

func newChecker(d *document, c *Config, h Handlers) *checker {
	var names []string
	if h != nil {
		names = h.Names()
	}
	return &checker{
		document: d, fileDocument: d, config: c, handlers: h, names: names,
		zones: map[string]*time.Location{}, schedules: map[scheduleKey]schedule.Schedule{},
		named: map[string]spot{}, uses: map[string]use{}, unread: map[string]bool{},
		calendars: map[string]*schedule.Calendar{},
	}
}

func (c *checker) check() {
	c.checkDatabase()
	c.checkJobsURL()
	c.checkSchemaName()
	c.checkReplica()
	c.checkLocking()
	c.checkSession()
	c.checkHistory()
	c.checkSchema()
	c.checkAdmin()
	c.zone("timezone", c.config.Timezone)
	c.checkCatchUp()
	c.checkHandlers()
	c.checkAddedJobs()
	c.checkCalendars()
	c.checkGroups()
	c.checkDatabases()
	c.checkJobs()
	c.checkAfter()
	c.checkWebhooks()
	c.checkTracing()
}

func (c *checker) checkReplica() {
	const path = "replica.name"
	if name := c.config.Replica.Name; name != "" && c.sound(path) && !isName(name) {
		c.fail(path, "found %s, expected %s", c.foundAt(path), nameWords)
	}
}

const nameWords = "a name of 1 to 200 bytes without control characters or spaces around it"

// isName reports whether name matches nameWords.
func isName(name string) bool {
	const most = 200
	return len(name) >= 1 && len(name) <= most && strings.TrimSpace(name) == name &&
		!strings.ContainsFunc(name, runes.IsControl)
}

func (c *checker) checkLocking() {
	l := &c.config.Locking
	if c.sound("locking.lease") && l.Lease%time.Second != 0 {
		c.fail("locking.lease", "found %s, expected whole seconds", durations.Short(l.Lease))
	}
	if l.Memcached == nil || c.near("locking.memcached").value.kind != kindMapping {
		return
	}
	if _, embedded := c.config.Database.SQLite(); embedded && c.soundURL() {
		c.failKey("locking.memcached", "found memcached with a sqlite:// database, expected "+
			"postgres://: replicas that share locks must share history, and a SQLite file "+
			"belongs to one process")
	}
	c.checkMemcached(l.Memcached)
}

func (c *checker) checkSession() {
	s := c.config.Session
	const heartbeats = 3 // so that two heartbeats may be late or lost
	if c.sound("session.heartbeat") && c.sound("session.expires") &&
		s.Expires < heartbeats*s.Heartbeat {
		c.fail(c.firstGiven("session.expires", "session.heartbeat"),
			"found a session that expires after %s with a heartbeat every %s, expected at least "+
				"%d heartbeats: %s or more",
			durations.Short(s.Expires), durations.Short(s.Heartbeat), heartbeats,
			durations.Short(heartbeats*s.Heartbeat))
	}
}

// minKeep is the shortest retention, which the tag of History.Keep has too.
const minKeep = time.Hour

func (c *checker) checkHistory() {
	const path = "history.keep_triggered"
	h := c.config.History
	if !c.sound(path) || !c.sound("history.keep") || h.KeepTriggered == 0 {
		return
	}
	if h.KeepTriggered < minKeep || h.KeepTriggered > h.Keep {
		c.fail(c.firstGiven(path, "history.keep"), "found %s, expected %s to %s (history.keep), "+
			"or 0s for the same time", durations.Short(h.KeepTriggered), durations.Short(minKeep),
			durations.Short(h.Keep))
	}
}

// checkSchema normalizes the default schema.
func (c *checker) checkSchema() {
	const path = "default_schema"
	if !c.sound(path) {
		return
	}
	schema, err := locking.Table(c.config.DefaultSchema+".*", "")
	if err != nil {
		c.fail(path, "found %s, expected the name of one schema", c.foundAt(path))
		// a valid value, so that the tables can be checked
		c.config.DefaultSchema = Defaults().DefaultSchema
		return
	}
	c.config.DefaultSchema = schema.Path()
}

// foundAt describes the value in the file at path.
func (c *checker) foundAt(path string) string {
	if !c.given(path) {
		return "nothing"
	}
	return c.near(path).value.found()
}

// foundURL is foundAt for a URL. It does not show one with a user, a query or a fragment, which may
// be secret.
func (c *checker) foundURL(path string) string {
	if strings.ContainsAny(c.near(path).value.text, "@?#") {
		return "a value with @, ? or # (it is not shown)"
	}
	return c.foundAt(path)
}
