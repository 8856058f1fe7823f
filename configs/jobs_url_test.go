package configs

import (
	"fmt"
	"strings"
	"testing"
)

func TestJobsURL(t *testing.T) {
	c := mustParse(t, "database: {url: 'postgres://h/d', jobs_url: 'postgres://j:hunter2@h/d'}")
	if c.Database.JobsURL.Reveal() != "postgres://j:hunter2@h/d" {
		t.Errorf("got %s", c.Database.JobsURL.Reveal())
	}
	for text, want := range map[string]string{
		"database: {jobs_url: 'postgres://j:hunter2@h/d'}": "c.yaml:1:12: database.jobs_url: " +
			"found a " +
			"URL for jobs with a sqlite:// database, expected postgres://: SQLite has no roles",
		"database: {url: 'postgres://h/d', jobs_url: 'sqlite://hunter2'}": "c.yaml:1:45: " +
			"database.jobs_url: found something else (it is not shown), expected a postgres:// " +
			"URL of the same database",
	} {
		_, err := parse(text)
		if fmt.Sprint(err) != want || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
