package param

import (
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunPath returns the address of a run's page.
func RunPath(id uuid.UUID) string { return "/runs/" + id.String() }

// JobPath returns the address of a job's page. The name may contain slashes.
func JobPath(name string) string { return "/jobs/" + url.PathEscape(name) }

// ExplainPath returns the page that explains the firing of a job at a time.
func ExplainPath(job string, at time.Time) string {
	return Address(JobPath(job)+"/explain", url.Values{"at": {at.UTC().Format(time.RFC3339)}})
}

// ActionPath returns the page of an action on a target.
func ActionPath(action string, t storage.Target) string {
	switch t.Kind {
	case storage.TargetJob:
		return JobPath(t.Name) + "/" + action
	case storage.TargetGroup:
		return "/groups/" + url.PathEscape(t.Name) + "/" + action
	}
	return "/" + action
}

// AgainPath returns the page that repeats a delivery.
func AgainPath(u storage.Undelivered) string {
	return Address("/webhooks/"+u.ID.String()+"/again", url.Values{"run": {u.Run.String()}})
}

// RunsPath returns the list of the runs in these states that were created at from or later and
// before until.
func RunsPath(states []jobs.State, from, until time.Time) string {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return Address("/runs", url.Values{"state": {strings.Join(names, ",")},
		"from": {from.UTC().Format(time.RFC3339)}, "until": {until.UTC().Format(time.RFC3339)}})
}
