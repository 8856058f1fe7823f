package configs

import (
	"net/url"
	"regexp"
	"strings"
)

const sqliteScheme = "sqlite://"

// SQLite returns the path of the file and true if the database is SQLite.
func (d Database) SQLite() (path string, ok bool) {
	return strings.CutPrefix(d.URL.Reveal(), sqliteScheme)
}

// checkDatabase does not quote the URL or parse errors, because a malformed URL may contain the
// password anywhere.
func (c *checker) checkDatabase() {
	if !c.soundURL() {
		return
	}
	at := c.firstGiven("database.url", "database.url_file")
	path, embedded := c.config.Database.SQLite()
	switch {
	case embedded && (path == "" || strings.ContainsAny(path, "?#\x00")):
		c.fail(at, "found a sqlite:// URL without a path or with options, expected sqlite:// and "+
			"the path of a file")
	case embedded:
	case c.config.Database.URL.IsZero():
		c.fail(at, "found nothing, expected sqlite://path or a postgres:// URL")
	case !isPostgres(c.config.Database.URL.Reveal()):
		c.fail(at, "found something else (it is not shown), expected sqlite://path or a "+
			"postgres:// URL, special characters in its password percent-encoded")
	}
}

// checkJobsURL does not quote the URL either.
func (c *checker) checkJobsURL() {
	at := c.firstGiven("database.jobs_url", "database.jobs_url_file")
	if c.config.Database.JobsURL.IsZero() || !c.soundURL() || !c.sound("database.jobs_url") ||
		!c.sound("database.jobs_url_file") {
		return
	}
	_, embedded := c.config.Database.SQLite()
	switch {
	case embedded:
		c.failKey(at, "found a URL for jobs with a sqlite:// database, expected postgres://: "+
			"SQLite has no roles")
	case !isPostgres(c.config.Database.JobsURL.Reveal()):
		c.fail(at, "found something else (it is not shown), expected a postgres:// URL of the "+
			"same database")
	}
}

// schemaName matches names that need no quotes in PostgreSQL, except reserved words.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// checkSchemaName leaves reserved words to PostgreSQL.
func (c *checker) checkSchemaName() {
	const path = "database.schema"
	schema := c.config.Database.Schema
	_, embedded := c.config.Database.SQLite()
	switch {
	case !c.sound(path):
	case schema == "":
		c.config.Database.Schema = Defaults().Database.Schema
	case !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_"):
		c.fail(path, "found %s, expected lower-case letters, digits and _, at most 63, without "+
			"pg_ at the beginning", c.foundAt(path))
	case embedded && c.soundURL() && schema != Defaults().Database.Schema:
		c.fail(path, "found %s with a sqlite:// database, expected none: SQLite has no schemas",
			c.foundAt(path))
	}
}

// soundURL reports whether the URL is valid.
func (c *checker) soundURL() bool { return c.sound("database.url") && c.sound("database.url_file") }

// isPostgres reports whether text is a PostgreSQL URL. It may name several hosts, while net/url
// accepts one.
func isPostgres(text string) bool {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" || rest == "" {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user := strings.LastIndexByte(rest[:end], '@') + 1
	for host := range strings.SplitSeq(rest[user:end], ",") {
		if _, err := url.Parse(scheme + "://" + rest[:user] + host + rest[end:]); err != nil {
			return false
		}
	}
	return true
}
