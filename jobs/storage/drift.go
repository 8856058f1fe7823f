package storage

import (
	"fmt"
	"strings"
)

// JobDrift is a job that differs between the configurations of live replicas. Its lists have names
// of replicas, sorted.
type JobDrift struct {
	Job     string   `json:"job"`
	Newest  []string `json:"newest"`            // they have its newest definition
	Older   []string `json:"older,omitempty"`   // they have an older one, and do not fire it
	Without []string `json:"without,omitempty"` // they do not have it
}

// AddDrift adds a replica to the last element of the list. If that element is of another job,
// AddDrift adds the replica to a new element.
func AddDrift(found []JobDrift, job, replica string, without, newest bool) []JobDrift {
	if len(found) == 0 || found[len(found)-1].Job != job {
		found = append(found, JobDrift{Job: job})
	}
	last := &found[len(found)-1]
	switch {
	case without:
		last.Without = append(last.Without, replica)
	case newest:
		last.Newest = append(last.Newest, replica)
	default:
		last.Older = append(last.Older, replica)
	}
	return found
}

// String describes the drift: "rollup: a has an older definition; b does not know it".
func (j JobDrift) String() string {
	var parts []string
	if len(j.Older) > 0 {
		parts = append(parts, fmt.Sprintf("%s an older definition",
			withVerb(j.Older, "has", "have")))
	}
	switch {
	case len(j.Without) > 0 && len(j.Older) == 0 && len(j.Newest) == 1:
		parts = append(parts, "only "+j.Newest[0]+" knows it")
	case len(j.Without) > 0:
		parts = append(parts, fmt.Sprintf("%s not know it", withVerb(j.Without, "does", "do")))
	}
	return j.Job + ": " + strings.Join(parts, "; ")
}

// withVerb joins the names of replicas, with a verb in the right number.
func withVerb(names []string, one, many string) string {
	if len(names) == 1 {
		return names[0] + " " + one
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " " + many
}
