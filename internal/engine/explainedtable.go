package engine

import "github.com/holdfast-dev/holdfast/jobs"

// explainedTable is the cron table as an explain.Table.
type explainedTable struct{ table *cronTable }

// Job returns a job of the table.
func (t explainedTable) Job(name string) (jobs.Job, bool) {
	if e := t.table.get(name); e != nil {
		return e.Job, true
	}
	return jobs.Job{}, false
}

// Names returns the names of all jobs.
func (t explainedTable) Names() (names []string) {
	for _, e := range t.table.all() {
		names = append(names, e.Name)
	}
	return names
}

// Hash returns the hash of a job's definition.
func (t explainedTable) Hash(name string) string {
	if e := t.table.get(name); e != nil {
		return e.hash
	}
	return ""
}
