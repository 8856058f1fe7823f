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

// State returns the state of the database in one word.
func (d JobDatabase) State() string {
	switch {
	case d.Err != nil:
		return "unavailable"
	case d.Since.IsZero():
		return "unknown"
	}
	return "available"
}

// Reason returns why its jobs do not start, in one line; "" if they do.
func (d JobDatabase) Reason() string {
	if d.Err == nil {
		return ""
	}
	return words.OneLine(d.Err.Error(), 300)
}

// DatabasesView is the databases of jobs as one replica sees them. Another replica may reach a
// database that this one does not.
type DatabasesView struct {
	SeenBy    string
	Databases []JobDatabase // by name
}

// databaseProblems reports databases whose jobs do not start on the replica that answers.
func databaseProblems(e Evidence, add func(Problem)) {
	for _, d := range e.Databases {
		if d.Err == nil {
			continue
		}
		since := d.Since.UTC()
		add(Problem{Kind: KindDatabase, Severity: Amber, Subject: d.Name, Link: replicasPath,
			Since: &since, Text: fmt.Sprintf("Database %s is not available to %s: %s Its jobs "+
				"wait or are skipped.", d.Name, e.ServedBy.Replica,
				words.Sentence(d.Reason()))})
	}
}

// databasePart returns the state of a database of jobs.
func databasePart(d JobDatabase) StatusPart {
	part := StatusPart{Name: "Database " + d.Name, Severity: Neutral, Text: "answers"}
	switch {
	case d.Err != nil:
		part.Severity, part.Text = Amber, "is not available"
	case d.Since.IsZero():
		part.Text = "not checked yet"
	}
	return part
}
