package configs

import (
	"maps"
	"regexp"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/locking"
)

// databaseName matches the names of databases of jobs. They are parts of names of locks.
var databaseName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// checkDatabases does not quote URLs, as checkDatabase.
func (c *checker) checkDatabases() {
	for _, name := range slices.Sorted(maps.Keys(c.config.Databases)) {
		d, path := c.config.Databases[name], keyPath("databases", name)
		if !databaseName.MatchString(name) || locking.IsKind(name) {
			c.failKey(path, "found the name %s, expected a lower-case letter, and then letters, "+
				"digits, - and _, at most 40, and no kind of lock such as table", shorten(name))
		}
		if c.near(path).value.kind != kindMapping {
			continue
		}
		at := c.firstGiven(keyPath(path, "url"), keyPath(path, "url_file"))
		switch {
		case !c.sound(keyPath(path, "url")) || !c.sound(keyPath(path, "url_file")):
		case !c.given(at):
			c.fail(at, "found nothing, expected a postgres:// URL")
		case !isPostgres(d.URL.Reveal()):
			c.fail(at, "found something else (it is not shown), expected a postgres:// URL, "+
				"special characters in its password percent-encoded")
		}
	}
}

// checkJobDatabase checks the name of the database in which a job has its tables.
func (c *checker) checkJobDatabase(j *Job, path string) {
	if j.Database == "" || !c.sound(path) {
		return
	}
	if _, known := c.config.Databases[j.Database]; !known {
		names := slices.Sorted(maps.Keys(c.config.Databases))
		c.fail(path, "unknown database %s%s", c.foundAt(path), suggest.Hint(j.Database, names))
	}
}
