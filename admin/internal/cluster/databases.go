package cluster

import (
	"cmp"
	"fmt"
	"slices"
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

// Database is a database other than the store, in which jobs have their tables.
type Database struct {
	Name string `json:"database"`
	// Replicas are the live replicas that have the database in their configuration, by name.
	Replicas []DatabaseView `json:"replicas"`
}

// DatabaseView is a database as one replica sees it, as of its last heartbeat.
type DatabaseView struct {
	Replica   string `json:"replica"`
	Available bool   `json:"available"`       // the replica starts the jobs of the database
	Error     string `json:"error,omitempty"` // why it does not
	// Since is the time of the first check with this result, by the clock of the replica. It is
	// absent before the first check.
	Since time.Time `json:"since,omitzero"`
}

// DatabasesOf returns the databases of the live replicas, by name.
func DatabasesOf(replicas []Replica) []Database {
	all := []Database{}
	for _, r := range replicas {
		if !r.Live() {
			continue
		}
		for _, d := range r.Databases {
			all = withView(all, d.Name, DatabaseView{r.Name, d.Error == "", d.Error, d.Since.UTC()})
		}
	}
	return all
}

// withView returns the databases with the view of a replica, which replaces an earlier one.
func withView(all []Database, name string, v DatabaseView) []Database {
	i, found := slices.BinarySearchFunc(all, name,
		func(d Database, name string) int { return cmp.Compare(d.Name, name) })
	if !found {
		all = slices.Insert(all, i, Database{Name: name, Replicas: []DatabaseView{}})
	}
	j, found := slices.BinarySearchFunc(all[i].Replicas, v.Replica,
		func(v DatabaseView, name string) int { return cmp.Compare(v.Replica, name) })
	if found {
		all[i].Replicas[j] = v
	} else {
		all[i].Replicas = slices.Insert(all[i].Replicas, j, v)
	}
	return all
}

// Down returns the views of the replicas to which the database is not available.
func (d Database) Down() []DatabaseView {
	return slices.DeleteFunc(slices.Clone(d.Replicas),
		func(v DatabaseView) bool { return v.Available })
}

// shownDown is the number of replicas per database whose errors the page lists.
const shownDown = 20

// DownShown returns the views in Down that the page lists.
func (d Database) DownShown() []DatabaseView {
	down := d.Down()
	return down[:min(len(down), shownDown)]
}

// DownMore returns the number of views in Down that the page does not list.
func (d Database) DownMore() int { return len(d.Down()) - len(d.DownShown()) }

// State describes the state of the database.
func (d Database) State() string {
	switch down := len(d.Down()); down {
	case 0:
		return "answers"
	case len(d.Replicas):
		return "is not available"
	default:
		return fmt.Sprintf("is not available to %d of %s", down,
			words.PlainFigure(len(d.Replicas), "replica", "replicas"))
	}
}

// databases returns the databases of the live replicas. The replica that answers knows its own
// states better than the store.
func (e Evidence) databases() []Database {
	all := DatabasesOf(e.Replicas)
	for _, d := range e.Databases {
		v := DatabaseView{Replica: e.ServedBy.Replica, Available: d.Err == nil,
			Since: d.Since.UTC()}
		if d.Err != nil {
			v.Error = d.Err.Error()
		}
		all = withView(all, d.Name, v)
	}
	return all
}

// databaseProblems reports databases whose jobs do not start on some replicas.
func databaseProblems(e Evidence, add func(Problem)) {
	for _, d := range e.databases() {
		down := d.Down()
		if len(down) == 0 {
			continue
		}
		since, names := down[0].Since, []string{}
		for _, v := range down {
			if names = append(names, v.Replica); v.Since.Before(since) {
				since = v.Since
			}
		}
		add(Problem{Kind: KindDatabase, Severity: Amber, Subject: d.Name, Link: databasesPath,
			Since: &since, Text: fmt.Sprintf("Database %s is not available to %s: %s Its jobs "+
				"wait or are skipped.", d.Name, words.Names(names),
				words.Sentence(words.OneLine(down[0].Error, 300))),
			ended: fmt.Sprintf("Database %s was not available to %s.", d.Name,
				words.Names(names))})
	}
}
