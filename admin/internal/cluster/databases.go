package cluster

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// JobDatabase is a database other than the store, in which jobs have their tables, as the replica
// that answers sees it.
type JobDatabase struct {
	Name  string
	Err   error     // why its jobs do not start; nil if they do
	Since time.Time // of the first check with this result; zero before the first check
}

// databaseProblems reports databases whose jobs do not start on the replica that answers.
func databaseProblems(e Evidence, add func(Problem)) {
	for _, d := range e.Databases {
		if d.Err == nil {
			continue
		}
		since := d.Since.UTC()
		add(Problem{Kind: KindDatabase, Severity: Amber, Subject: d.Name, Link: "/jobs",
			Since: &since, Text: fmt.Sprintf("Database %s is not available to %s: %s Its jobs "+
				"wait or are skipped.", d.Name, e.ServedBy.Replica,
				words.Sentence(words.OneLine(d.Err.Error(), 300)))})
	}
}

// databasePart returns the state of a database of jobs.
func databasePart(d JobDatabase) StatusPart {
	part := StatusPart{Name: "Database " + d.Name, Severity: Neutral, Text: "answers"}
	if d.Err != nil {
		part.Severity, part.Text = Amber, "is not available"
	}
	return part
}
