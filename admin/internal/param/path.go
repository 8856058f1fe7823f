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

// BackfillPath returns the address of a backfill's page.
func BackfillPath(id uuid.UUID) string { return "/backfills/" + id.String() }

// BackfillsPath returns the list of the backfills of a job.
func BackfillsPath(job string) string {
	return Address("/backfills", url.Values{"job": {job}})
}

// RunsOfBackfillPath returns the list of the runs of a backfill, in these states if there are any.
func RunsOfBackfillPath(id uuid.UUID, states ...jobs.State) string {
	query := url.Values{"backfill": {id.String()}}
	if len(states) > 0 {
		query.Set("state", joined(states))
	}
	return Address("/runs", query)
}

// RunsPath returns the list of the runs in these states that were created at from or later and
// before until.
func RunsPath(states []jobs.State, from, until time.Time) string {
	return "/runs?from=" + inQuery(from) + "&state=" + url.QueryEscape(joined(states)) +
		"&until=" + inQuery(until)
}

// RunsOfJobPath returns the list of the runs of a job with the reason, or with any if it is "", in
// these states, that were created at from or later.
func RunsOfJobPath(job string, reason jobs.Reason, from time.Time, states ...jobs.State) string {
	query := url.Values{"job": {job}, "state": {joined(states)},
		"from": {from.UTC().Format(time.RFC3339)}}
	if reason != "" {
		query.Set("reason", string(reason))
	}
	return Address("/runs", query)
}

// inQuery returns a time as the value of a parameter in an address.
func inQuery(t time.Time) string { return url.QueryEscape(t.UTC().Format(time.RFC3339)) }

// joined returns states as the value of a parameter.
func joined(states []jobs.State) string {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return strings.Join(names, ",")
}
