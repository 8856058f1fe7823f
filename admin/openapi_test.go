package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/grid"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// operation describes an operation of the API, except for its path.
type operation struct {
	summary string
	query   []parameter
	answer  reflect.Type
	lists   bool // has a Link header to the next page
	body    object
	needs   []string // required fields of the body
	more    map[int]reflect.Type
}

type parameter struct {
	name, description string
	schema            object
}

func text(name, description string) parameter {
	return parameter{name, description, object{"type": "string", "maxLength": param.MaxTextLength}}
}

func someOf[T ~string](name, description string, words []T) parameter {
	return parameter{name, description, object{"type": "string", "enum": words}}
}

func timestamp(name, description string) parameter {
	return parameter{name, description +
		" A timestamp such as 2026-01-31T09:00:00Z; in UTC if it has no zone.",
		object{"type": "string", "maxLength": param.MaxTextLength}}
}

// stretch returns the parameters of an interval: a duration up to now, or its start and end.
func stretch(byDefault string) []parameter {
	var names []string
	for _, s := range charts.WindowSpans() {
		names = append(names, s.Name)
	}
	span := object{"type": "string", "enum": names, "default": byDefault}
	return []parameter{{"span", "The length of the window, unless both from and until are given.",
		span},
		timestamp("from", "The beginning."), timestamp("until", "The end.")}
}

func limit(byDefault int) parameter {
	return parameter{"limit", "The maximum number of entries.",
		object{"type": "integer", "minimum": 1, "maximum": storage.MaxBatch, "default": byDefault}}
}

// spanNames returns the values of the parameter span of the grid.
func spanNames() (names []string) {
	for _, s := range grid.Spans() {
		names = append(names, s.Name)
	}
	return names
}

// onlyNames returns the values of the parameter only of the grid.
func onlyNames() (names []string) {
	for _, o := range grid.Onlys()[1:] {
		names = append(names, o.Name)
	}
	return names
}

// agendaSpanNames returns the values of the parameter span of the agenda.
func agendaSpanNames() (names []string) {
	for _, s := range locks.AgendaSpans() {
		names = append(names, s.Name)
	}
	return names
}

// describedOperations describes the operation of every route of the API.
func describedOperations() map[string]operation {
	reason := object{"type": "string", "maxLength": storage.MaxReasonBytes,
		"description": "The reason, for the audit log."}
	version := object{"type": "integer", "format": "int64", "minimum": 0,
		"description": "The version of the job to change; 0 for a new job."}
	flag := func(description string) object {
		return object{"type": "boolean", "default": false, "description": description}
	}
	why := object{"reason": reason}
	action := func(summary string, answer reflect.Type) operation {
		return operation{summary: summary, answer: answer, body: why}
	}
	pause, record := reflect.TypeFor[storage.Pause](), reflect.TypeFor[storage.Record]()
	return map[string]operation{
		"GET /api/v1/overview": {summary: "The state of the cluster. While the store does not " +
			"answer, the cached state with 503.",
			answer: reflect.TypeFor[Overview](),
			more: map[int]reflect.Type{
				http.StatusServiceUnavailable: reflect.TypeFor[Overview]()}},
		"GET /api/v1/status": {summary: "The status of the cluster: its severity and all " +
			"problems, the most severe first. While the store does not answer, that problem " +
			"with 503.",
			answer: reflect.TypeFor[Status](),
			more: map[int]reflect.Type{
				http.StatusServiceUnavailable: reflect.TypeFor[Status]()}},
		"GET /api/v1/locks": {summary: "All locks with their holders.",
			answer: reflect.TypeFor[[]Lock]()},
		"GET /api/v1/locks/tree": {summary: "All known resources as a tree, with holders and " +
			"waiters.", answer: reflect.TypeFor[locks.ResourceTree](), lists: true,
			query: []parameter{
				text("text", "Part of a name: of a resource, or of a job, replica or run that "+
					"holds it or waits for it."),
				someOf("state", "Resources in this state.", []string{"held", "waiting", "free"}),
				text("under", "This resource and its descendants."),
				text("after", "The page after this, as a Link header names it."),
			}},
		"GET /api/v1/locks/timeline": {summary: "Runs, waits and skips of each resource, newest " +
			"first, losses of replicas, and restarts of memcached.", answer: reflect.TypeFor[locks.Timeline](),
			lists: true,
			query: append(stretch("1h"), text("resource", "This resource and its descendants."),
				parameter{"skip", "The number of resources to skip.",
					object{"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0}})},
		"GET /api/v1/locks/contention": {summary: "How long jobs waited for each other.",
			answer: reflect.TypeFor[locks.Contentions](),
			query: append(stretch("24h"),
				text("resource", "This resource and its descendants."))},
		"GET /api/v1/locks/upcoming": {summary: "Expected conflicts of the next 24 hours, by the " +
			"cron table of the answering replica.",
			answer: reflect.TypeFor[locks.UpcomingConflicts](),
			query:  []parameter{text("resource", "This resource and its descendants.")}},
		"GET /api/v1/jobs": {summary: "Jobs by name.", answer: reflect.TypeFor[[]Job](),
			lists: true, query: []parameter{
				text("text", "Part of the name or the description, in any case."),
				text("group", "Of this group."),
				someOf("state", "For waiting and running: jobs with such a run. For other "+
					"states: jobs whose last run ended in it. For failing: jobs whose last runs "+
					"all failed, by the rule of the status. For last_failed: jobs whose last run "+
					"failed, timed out or was lost, even if later firings were skipped. "+
					"For never_run: jobs without a run.",
					jobStateNames()),
				someOf("source", "The source of the job.",
					[]storage.Source{storage.FromConfig, storage.FromStore}),
				someOf("paused", "Whether a pause covers the job.", []string{"yes", "no"}),
				someOf("sort", "The order: by name, by state with those that need attention "+
					"first, by usual duration, or by the next scheduled time. Jobs without a "+
					"value come last. Without this parameter the order is by name, and after "+
					"and before choose the page.", jobOrders()),
				someOf("order", "The direction of the order that sort chooses.",
					[]string{"asc", "desc"}),
				limit(defaultJobs),
				{"skip", "With sort: the number of jobs to leave out at the beginning.",
					object{"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0}},
				text("after", "Without sort: the page after this name."),
				text("before", "Without sort: the page before this name."),
			}},
		"GET /api/v1/jobs/{name}": {summary: "A job with its runs and statistics.",
			answer: reflect.TypeFor[JobDetail]()},
		"GET /api/v1/jobs/{name}/explain": {summary: "Why a job ran, or did not run, at a time.",
			answer: reflect.TypeFor[explain.Explanation](),
			query: []parameter{timestamp("at", "A timestamp, or a time of day in the job's zone. "+
				"By default now.")}},
		"GET /api/v1/jobs/{name}/spec": {
			summary: "The stored definition of a job that was added at run time.",
			answer:  reflect.TypeFor[storage.Spec]()},
		"GET /api/v1/runs": {summary: "Runs, newest first.",
			answer: reflect.TypeFor[[]storage.Record](), lists: true, query: []parameter{
				text("job", "Of this job, or of all jobs with a prefix, such as etl/*."),
				text("group", "Of jobs in this group."),
				{"state", "In these states: repeated, or separated by commas.",
					object{"type": "array", "items": object{"type": "string"}}},
				someOf("reason", "With this reason.", reasons.All()),
				text("replica", "Of this replica."),
				text("error", "With this text in the error, in any case. Of each state, the "+
					"newest 5,000 runs are searched, and 500 of skipped and missed ones."),
				text("resource",
					"Of jobs that lock this table or resource, or a related one."),
				{"backfill", "Of this backfill.", object{"type": "string", "format": "uuid"}},
				timestamp("from", "Created at this time or later."),
				timestamp("until", "Created before this time."),
				limit(defaultRuns),
				text("before", "The page after this run's id: older ones."),
				text("after", "The page before this run's id: newer ones."),
			}},
		"GET /api/v1/agenda": {summary: "The firings of the next hours by job, with expected " +
			"waits, by the cron table of the answering replica.",
			answer: reflect.TypeFor[locks.Agenda](), lists: true, query: []parameter{
				{"span", "The length of the time.", object{"type": "string",
					"enum": agendaSpanNames(), "default": locks.DefaultAgendaSpan}},
				text("text", "Part of the name of the job, or of a resource that it locks."),
				someOf("conflicts", "Only jobs that are expected to wait.", []string{"yes"}),
				{"skip", "The number of jobs to leave out at the beginning.",
					object{"type": "integer", "minimum": 0}},
			}},
		"GET /api/v1/grid": {summary: "The outcomes of jobs by scheduled time: of each job " +
			"the newest runs, by column.", answer: reflect.TypeFor[grid.Grid](), lists: true,
			query: []parameter{
				{"span", "The length of the shown time.", object{"type": "string",
					"enum": spanNames(), "default": grid.DefaultSpan}},
				timestamp("until", "The end of the shown time. By default now."),
				someOf("only", "Only jobs with runs that failed, timed out or were lost in this "+
					"time, or also with skipped and missed ones.", onlyNames()),
				text("text", "Part of the name or description of the job, in any case."),
				text("group", "Of this group."),
				text("after", "The page after this job."),
				text("before", "The page before this job."),
			}},
		"GET /api/v1/runs/{id}": {summary: "A run with its attempts, and the output of the last.",
			answer: reflect.TypeFor[RunDetail]()},
		"GET /api/v1/runs/{id}/outcome": {
			summary: "The run with its output, or the last run that recovers it.",
			answer:  record},
		"GET /api/v1/runs/{id}/attempts/{attempt}": {
			summary: "An attempt of a run with its output.",
			answer:  reflect.TypeFor[storage.RunAttempt]()},
		"GET /api/v1/search": {summary: "Jobs, resources and replicas by a part of the name, and " +
			"runs by the beginning of the id, which has at least four digits: at most 20 of each.",
			answer: reflect.TypeFor[searchResults](),
			query:  []parameter{text("q", "The searched text.")}},
		"GET /api/v1/backfills": {summary: "Backfills, newest first.",
			answer: reflect.TypeFor[[]storage.Backfill](), query: []parameter{
				text("job", "Of this job."),
				someOf("state", "In this state.", storage.BackfillStates()), limit(defaultRuns),
				text("before", "The page after the backfill that a Link header names."),
				text("after", "The page before it.")}, lists: true},
		"GET /api/v1/backfills/{id}": {summary: "A backfill with its progress.",
			answer: reflect.TypeFor[storage.Backfill]()},
		"GET /api/v1/jobs/{name}/backfill": {summary: "What a backfill of the job would do now: " +
			"the scheduled times that would get a run, and those that would be left out.",
			answer: reflect.TypeFor[operations.BackfillPlan](), query: []parameter{
				timestamp("from", "The beginning. By default a day before the end."),
				timestamp("to", "The end. By default now."),
				{"parallel", "The most runs that have not ended.", object{"type": "integer",
					"minimum": 1, "maximum": storage.MaxBackfillParallel, "default": 1}}}},
		"GET /api/v1/replicas/sessions": {summary: "The sessions of replicas in the last 24 " +
			"hours, with their drains, sorted by name and start: at most 1,000, the youngest.",
			answer: reflect.TypeFor[[]storage.ReplicaSession]()},
		"GET /api/v1/replicas": {summary: "Live replicas, and those that ended in the last hour.",
			answer: reflect.TypeFor[[]Replica]()},
		"GET /api/v1/databases": {summary: "The databases in which jobs have their tables, as " +
			"the live replicas see them.", answer: reflect.TypeFor[[]Database]()},
		"GET /api/v1/memcached": {summary: "The memcached servers, as this replica sees them.",
			answer: reflect.TypeFor[MemcachedView]()},
		"GET /api/v1/pauses": {summary: "The active pauses.",
			answer: reflect.TypeFor[[]storage.Pause]()},
		"GET /api/v1/openapi.json": {summary: "This document."},
		"GET /api/v1/audit": {summary: "The audit log, newest first.",
			answer: reflect.TypeFor[[]storage.Audited](), lists: true, query: []parameter{
				text("actor", "By this user or token."),
				someOf("action", "Of this kind.", AuditActions()),
				text("target", "To this target."), limit(pageAudit),
				text("before", "The page after the line that a Link header names, newest first."),
				timestamp("from", "Of this time or later."),
				timestamp("until", "Before this time."),
				someOf("order", "The order of the lines.", auditOrders()),
				text("after", "The page after the line that a Link header names, oldest first."),
			}},
		"GET /api/v1/webhooks": {summary: "Failed deliveries, newest first.",
			answer: reflect.TypeFor[[]storage.Undelivered](), lists: true,
			query: []parameter{
				text("webhook", "Of this webhook."),
				{"run", "Of this run.", object{"type": "string", "format": "uuid"}},
				someOf("given_up", "Only deliveries that were given up.", []string{"yes"}),
				limit(defaultRuns),
				text("before", "The page after the delivery that a Link header names."),
				text("after", "The page before it."),
			}},
		"GET /api/v1/events": {summary: "Changes in the cluster, as Server-Sent Events named by " +
			"topic. Each has an id from which any replica can continue. Query the data of the " +
			"topic after an event. A stream ends after half an hour, or with the sign-in. Then " +
			"reconnect.", query: []parameter{
			{"topics", "The topics, separated by commas: " + words.List(storage.Topics()) +
				". By default all.", object{"type": "string"}},
			text("since",
				"The id of the last event seen. The header Last-Event-ID takes precedence."),
		}},
		"POST /api/v1/jobs": {summary: "Adds a job, or changes an added job.",
			answer: reflect.TypeFor[storage.Spec](), body: object{
				"reason": reason, "job": object{"type": "object",
					"description": "The job, as in a configuration. Required unless text is given."},
				"text": object{"type": "string",
					"description": "The job as YAML or JSON text, instead of job. Then problems " +
						"have the line and column of the text."},
				"version": version, "replace": flag(
					"Change an added job of any version, instead of version.")}},
		"POST /api/v1/jobs/{name}/remove": {summary: "Removes an added job.",
			answer: reflect.TypeFor[removed](), body: object{"reason": reason, "version": version}},
		"POST /api/v1/jobs/{name}/trigger": {summary: "Adds a run of the job, which any replica " +
			"starts. The answer has the current blocker. The status is 409 if the run would have " +
			"to wait and wait is 0.",
			answer: reflect.TypeFor[storage.Triggered](), body: object{
				"at": object{"type": "string", "format": "date-time",
					"description": "When the run starts, by the clock of the store. A time that " +
						"has passed is now. By default the run starts at once."},
				"delay": object{"type": "string", "examples": []string{"10m", "36h"},
					"description": "The time from the trigger to the start, as a Go duration, " +
						"instead of at."},
				"wait": object{"type": "string", "examples": []string{"0", "10m"},
					"description": "The longest wait before the start, as a Go duration; then " +
						"the run is skipped. With 0, no run is added if something blocks it. By " +
						"default the run waits until the job's deadline."},
				"reason": reason, "params": object{"type": "object",
					"description": "Params that override those of the job, by key. " +
						"The job must list them as overridable."}, "even_paused": flag(
					"Start the run even if the job is paused. Needs the " +
						"permission to pause the job too.")}},
		"POST /api/v1/jobs/{name}/backfill": {summary: "Adds runs for the scheduled times of the " +
			"job that have no run that succeeded. A job has at most one active backfill.",
			answer: reflect.TypeFor[storage.Backfill](), needs: []string{"from"}, body: object{
				"from": object{"type": "string", "format": "date-time",
					"description": "The first time that belongs to the backfill."},
				"to": object{"type": "string", "format": "date-time",
					"description": "The last time that belongs to it, not in the future. By " +
						"default now."},
				"parallel": object{"type": "integer", "format": "int64", "minimum": 1,
					"maximum": storage.MaxBackfillParallel, "default": 1,
					"description": "The most runs that have not ended. More than 1 only if runs " +
						"of the job may overlap."},
				"reason": reason}},
		"POST /api/v1/backfills/{id}/cancel": action("Ends a backfill and its waiting runs. Its "+
			"running runs continue to their end.", reflect.TypeFor[storage.Backfill]()),
		"POST /api/v1/jobs/{name}/pause":    action("Pauses a job.", pause),
		"POST /api/v1/jobs/{name}/resume":   action("Resumes a job.", pause),
		"POST /api/v1/groups/{name}/pause":  action("Pauses a group.", pause),
		"POST /api/v1/groups/{name}/resume": action("Resumes a group.", pause),
		"POST /api/v1/pause":                action("Pauses all jobs.", pause),
		"POST /api/v1/resume":               action("Resumes all jobs.", pause),
		"POST /api/v1/runs/{id}/cancel": action(
			"Cancels a run.", record),
		"POST /api/v1/reload": action("Makes the replica that answers read its configuration "+
			"again. The status is 422 if it has mistakes; then nothing changes.",
			reflect.TypeFor[Reloaded]()),
		"POST /api/v1/replicas/{session}/drain": action("Drains a replica.",
			reflect.TypeFor[drained]()),
		"POST /api/v1/replicas/{session}/undrain": action("Ends the drain of a replica.",
			reflect.TypeFor[drained]()),
		"POST /api/v1/replicas/{session}/remove": action("Removes a lost replica from the lists "+
			"of replicas and from the status.", reflect.TypeFor[removedReplica]()),
		"POST /api/v1/webhooks/{id}/again": action("Repeats a failed delivery.",
			reflect.TypeFor[storage.Undelivered]()),
		"POST /api/v1/locks/release": {summary: "Releases a lock by force. The holder can commit " +
			"nothing more.", answer: reflect.TypeFor[Released](),
			needs: []string{"resource", "token"}, body: object{
				"reason": reason, "resource": object{"type": "string",
					"description": "The name in the list of locks."},
				"token": object{"type": "integer", "format": "int64", "minimum": 1,
					"description": "The holder's token in the list of locks. The status is 409 " +
						"if another run holds the resource."},
				"end_transaction": flag(
					"Also end the transaction of the holder, which rolls it back.")}},
	}
}

// document returns the OpenAPI document.
func document(t *testing.T, routes []route) object {
	s := newSchemas(t)
	s.of(reflect.TypeFor[refusedAction]())
	s.named["Error"] = object{"type": "object", "required": []string{"error"},
		"additionalProperties": false,
		"properties": object{"error": object{"type": "string",
			"description": "The error, for people."}}}
	paths, known := object{}, describedOperations()
	for _, r := range routes {
		if !strings.HasPrefix(r.path, "/api/") {
			continue
		}
		name := r.method + " " + r.path
		op, described := known[name]
		if !described {
			t.Errorf("%s is not described", name)
			continue
		}
		delete(known, name)
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path].(object)[strings.ToLower(r.method)] = op.document(s, r)
	}
	for name := range known {
		t.Errorf("%s is described, and not there", name)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Holdfast", "version": "1",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The data and actions of the pages, as JSON. All replicas give the " +
				"same answers. Lists are never null. Times are in UTC. Unknown parameters and " +
				"fields, and repeated parameters, are refused with 400. Later versions may add " +
				"fields to answers. x-permission is the permission that an operation needs, and " +
				"x-target says on what."},
		"paths": paths,
		"components": object{"schemas": s.named, "responses": s.refusals,
			"headers": object{"RequestId": object{
				"description": "The id of the request, as the audit log and log lines have it.",
				"schema":      object{"type": "string"}}},
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer",
					"description": "A token of the configuration."},
				"signIn": object{"type": "apiKey", "in": "cookie", "name": "__Host-holdfast",
					"description": "The cookie of a sign-in. After a sign-in with OpenID " +
						"Connect its " +
						"name is __Host-holdfast-oidc. Over plain HTTP on loopback the names are " +
						"holdfast and holdfast-oidc."},
			}},
	}
}

// permissionTarget says what the permission of a route is about.
func permissionTarget(r route) string {
	kind := targetKind(r.need)
	switch {
	case kind == "run":
		return "the job of the run"
	case kind == "backfill":
		return "the job of the backfill"
	case kind == "jobs":
		return "the group of the filter, without one everything"
	case kind == "runs":
		return "the job of the filter or of its backfill, without one everything"
	case kind == "backfills":
		return "the job of the filter, without one everything"
	case kind == "something" && r.method == http.MethodPost:
		return "what the body names"
	case kind == "something":
		return "anything"
	}
	return kind
}

func (op operation) document(s *schemas, r route) object {
	role := string(Viewer)
	if r.isAction() {
		role = string(Operator)
	}
	d := object{"summary": op.summary, "operationId": operationID(r),
		"responses": op.responses(s, r), "security": []any{
			object{"token": []string{role}}, object{"signIn": []string{role}}, object{},
		}}
	if r.need.permission != "" {
		d["x-permission"], d["x-target"] = r.need.permission, permissionTarget(r)
	}
	parameters := []any{}
	for _, match := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(r.path, -1) {
		schema := object{"type": "string", "maxLength": storage.MaxNameBytes}
		switch match[1] {
		case "attempt":
			schema = object{"type": "integer", "minimum": 1}
		case "name":
		default:
			schema = object{"type": "string", "format": "uuid"}
		}
		parameters = append(parameters,
			object{"name": match[1], "in": "path", "required": true, "schema": schema})
	}
	for _, p := range op.query {
		parameters = append(parameters,
			object{"name": p.name, "in": "query", "description": p.description, "schema": p.schema})
	}
	if r.method == http.MethodPost {
		parameters = append(parameters,
			object{"name": "Idempotency-Key", "in": "header",
				"schema": object{"type": "string", "maxLength": storage.MaxNameBytes},
				"description": "A second action of the same user or token with the same key, on " +
					"any replica, does nothing and gets the same answer."},
			object{"name": access.ActionHeader, "in": "header",
				"schema": object{"type": "string", "const": "1"},
				"description": "Needed on a server without users, tokens and other sign-in, " +
					"unless a browser sends the request from a page of this server."})
		schema := object{"type": "object", "properties": op.body, "additionalProperties": false}
		if len(op.needs) > 0 {
			schema["required"] = op.needs
		}
		d["requestBody"] = object{"required": len(op.needs) > 0,
			"content": object{"application/json": object{"schema": schema}}}
	}
	if r.path == "/api/v1/events" {
		parameters = append(parameters,
			object{"name": "Last-Event-ID", "in": "header", "schema": object{"type": "string"},
				"description": "The id of the last event seen, as browsers send it that come " +
					"again."})
	}
	if len(parameters) > 0 {
		d["parameters"] = parameters
	}
	return d
}

func operationID(r route) string {
	parts := strings.FieldsFunc(strings.TrimSuffix(strings.TrimPrefix(r.path, "/api/v1/"), ".json"),
		func(c rune) bool { return strings.ContainsRune("/{}", c) })
	return strings.ToLower(r.method) + "-" + strings.Join(parts, "-")
}

// refusals returns the error responses of an operation. Actions have more of them than queries.
func (op operation) refusals(r route) map[int]string {
	description := map[int]string{
		http.StatusBadRequest:   "A parameter or a field can't be read: it is named.",
		http.StatusUnauthorized: "Sign in, or send a token.",
		http.StatusForbidden: "The role does not allow it, or the request comes from another " +
			"site, or lacks a header.",
		http.StatusMisdirectedRequest:  "The API is not served under this name.",
		http.StatusTooManyRequests:     "Too many wrong tokens, or event streams, of this sender.",
		http.StatusInternalServerError: "A mistake in the program.",
		http.StatusServiceUnavailable:  "The store can't be asked, or too many ask.",
	}
	if strings.Contains(r.path, "{") || r.method == http.MethodPost {
		description[http.StatusNotFound] = "There is no such thing."
	}
	if r.method == http.MethodPost {
		description[http.StatusConflict] = "Things are no longer as the caller believes; what " +
			"may be added to the request is in option."
		description[http.StatusRequestEntityTooLarge] = "The body is too large."
		description[http.StatusUnprocessableEntity] = "The params or the job have mistakes."
	}
	if r.method == http.MethodPost || r.path == "/api/v1/events" {
		description[http.StatusNotImplemented] = "This replica does not do that."
	}
	return description
}

func (op operation) responses(s *schemas, r route) object {
	ok := object{"description": "OK"}
	switch {
	case op.answer != nil:
		ok["content"] = object{"application/json": object{"schema": s.of(op.answer)}}
	case r.path == "/api/v1/events":
		ok["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	default:
		ok["content"] = object{"application/json": object{"schema": object{"type": "object"}}}
	}
	headers := requestID()
	ok["headers"] = headers
	if op.lists {
		headers["Link"] = object{
			"description": `Where the list goes on, rel="next", and back, rel="prev".`,
			"schema":      object{"type": "string"}}
	}
	kind, schema := "Error", object{"$ref": "#/components/schemas/Error"}
	if r.method == http.MethodPost {
		kind, schema = "RefusedAction", object{"$ref": "#/components/schemas/RefusedAction"}
	}
	responses := object{"200": ok}
	for status, description := range op.refusals(r) {
		if other := op.more[status]; other != nil {
			responses[strconv.Itoa(status)] = jsonAnswer(description, s.of(other))
			continue
		}
		name := kind + strconv.Itoa(status)
		s.refusals[name] = jsonAnswer(description, schema)
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/" + name}
	}
	return responses
}

// requestID returns the headers that every response has.
func requestID() object {
	return object{"X-Request-Id": object{"$ref": "#/components/headers/RequestId"}}
}

func jsonAnswer(description string, schema object) object {
	return object{"description": description, "headers": requestID(),
		"content": object{"application/json": object{"schema": schema}}}
}

// TestOpenAPI checks that the served document matches the routes and the types of their responses.
// The test of package openapitest checks that the document is valid.
func TestOpenAPI(t *testing.T) {
	server := newServer(t, contention())
	written, err := json.MarshalIndent(document(t, server.routes()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../openapi.json", append(written, '\n'))
	if served := get(t, server.Handler(), "/api/v1/openapi.json"); !bytes.Equal(served.Body.Bytes(),
		openAPI) || served.Code != http.StatusOK {
		t.Errorf("another document is served: %d", served.Code)
	}
}

// described is the parsed document, for validation.
type described struct {
	*jsonschema.Compiler
	doc     object
	schemas map[string]*jsonschema.Schema // compiled schemas by their position in the document
}

func newDescribed(t *testing.T) described {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPI))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return described{c, doc.(object), make(map[string]*jsonschema.Schema)}
}

// schema compiles the schema at a position of the document once.
func (d described) schema(t *testing.T, at string) *jsonschema.Schema {
	t.Helper()
	if d.schemas[at] == nil {
		schema, err := d.Compile("openapi.json" + at + "/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		d.schemas[at] = schema
	}
	return d.schemas[at]
}

// checks fails the test unless the document allows the route's response.
func (d described) checks(t *testing.T, r route, what string, reply *httptest.ResponseRecorder) {
	t.Helper()
	operation := d.doc["paths"].(object)[r.path].(object)[strings.ToLower(r.method)].(object)
	response, described := operation["responses"].(object)[strconv.Itoa(reply.Code)].(object)
	if !described {
		t.Errorf("%s: %d is not described", what, reply.Code)
		return
	}
	at, elsewhere := response["$ref"].(string)
	if !elsewhere {
		at = fmt.Sprintf("#/paths/%s/%s/responses/%d",
			strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(r.path),
			strings.ToLower(r.method), reply.Code)
	}
	value, err := jsonschema.UnmarshalJSON(reply.Body)
	if err == nil {
		err = d.schema(t, at).Validate(value)
	}
	if err != nil {
		t.Errorf("%s: got %d, which its schema does not allow: %v", what, reply.Code, err)
	}
}

func inAPI(s *Server) []route {
	return slices.DeleteFunc(s.routes(), func(r route) bool {
		return !strings.HasPrefix(r.path, "/api/") || r.path == "/api/v1/events"
	})
}

// clusters are the clusters of the gallery, each once.
func clusters() map[string]Options {
	return map[string]Options{
		"empty": empty(), "one": one(), "calm": calm(), "busy": busy(), "contention": contention(),
		"layers": layers(), "hostile": hostile(), "memcached": watched(), "drifting": drifting(),
		"drift": drift(), "story": story(), "night": night(), "crowd": crowd(), "fifty": fifty(),
		"many locks": tenThousandLocks(), "many waits": manyWaits(), "rush": rush(), "down": down(),
		"acted":          actionOptions(contention()),
		"acted and down": actionOptions(contention(), storeDown), "added": actionOptions(busy(), added),
		"paused": actionOptions(contention(),
			paused(storage.Target{Kind: storage.TargetAll}, "a failover is going on")),
		"no webhook": actionOptions(contention(), func(c *control) { c.hooks = nil }),
	}
}

// TestAnswersMatchTheirSchemas requests every route, and performs each action with success and with
// a refusal. Without a soak it uses the clusters that differ most, and in a soak every cluster of
// the gallery.
func TestAnswersMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	asked := clusters()
	short := []string{"empty", "busy", "contention", "hostile", "memcached", "story", "down",
		"added"}
	for _, name := range soak.Pick(short, slices.Sorted(maps.Keys(asked))) {
		server := newServer(t, asked[name])
		handler := server.Handler()
		for _, r := range inAPI(server) {
			if r.method == http.MethodGet {
				d.checks(t, r, name+": GET "+r.path, get(t, handler, addressOf(server, r.path)))
				d.checks(t, r, name+": GET "+r.path+"?bogus=1",
					get(t, handler, addressOf(server, r.path)+"?bogus=1"))
			}
		}
	}
	server, control := acting(t)
	had := make(map[string]bool)
	for i, body := range []string{"as it should be", `{"bogus": 1}`, `{"reason": 1}`, `{`,
		`{"params": {"nothing": 1}}`, `{"job": {}}`, `{"version": 7}`,
		`{"resource": "public/nothing", "token": 1}`, `{"resource": "public/orders", "token": 1}`,
		"x" + strings.Repeat(" ", maxBody)} {
		for _, down := range []error{nil, storage.ErrUnavailable} {
			control.history.err = down
			for _, r := range inAPI(server) {
				if r.method == http.MethodGet && i > 0 {
					continue // it has no body
				}
				sent := body
				if body == "as it should be" {
					sent = bodyOf(r.path)
				}
				reply := accesstest.Ask(server.Handler(), r.method, addressOf(server, r.path),
					accesstest.From("127.0.0.1:9"),
					accesstest.WithHeader(access.ActionHeader, "1"), func(q *http.Request) {
						q.Host = "localhost"
						withText(sent)(q)
					})
				had[fmt.Sprint(r.method, reply.Code)] = true
				d.checks(t, r, fmt.Sprintf("%s %s of %.40s", r.method, r.path, sent), reply)
			}
		}
	}
	for _, want := range []string{"GET200", "GET503", "POST200", "POST400", "POST404", "POST409",
		"POST413", "POST422", "POST503"} {
		if !had[want] {
			t.Errorf("nothing was answered with %s: %v", want, had)
		}
	}
}

func withText(body string) func(*http.Request) {
	return func(r *http.Request) {
		sent := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Body, r.ContentLength = sent.Body, sent.ContentLength
	}
}

// TestParametersMatchOpenAPI sends an unknown parameter to each route. The refusal must list
// exactly the documented parameters.
func TestParametersMatchOpenAPI(t *testing.T) {
	server, _ := acting(t)
	for _, r := range server.routes() {
		op, described := describedOperations()[r.method+" "+r.path]
		if !described {
			continue
		}
		var want []string
		for _, p := range op.query {
			want = append(want, p.name)
		}
		reply := send(server.Handler(), r.method, addressOf(server, r.path)+"?bogus=1", nil)
		if got := expectedIn(reply); reply.Code != http.StatusBadRequest ||
			!slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s %s: %d, takes parameters %q, described are %q", r.method, r.path,
				reply.Code, got, want)
		}
		if r.method == http.MethodPost {
			reply := accesstest.Ask(server.Handler(), r.method, addressOf(server, r.path),
				accesstest.From("127.0.0.1:9"), accesstest.WithHeader(access.ActionHeader, "1"),
				func(q *http.Request) { q.Host = "localhost"; withText(`{"bogus": 1}`)(q) })
			if got := expectedIn(reply); reply.Code != http.StatusBadRequest ||
				!slices.Equal(got, propertyNames(op.body)) {
				t.Errorf("%s %s: %d, takes fields %q, described are %q", r.method, r.path,
					reply.Code, got, propertyNames(op.body))
			}
		}
	}
}

// expectedIn returns the names that a refusal lists as expected, sorted.
func expectedIn(reply *httptest.ResponseRecorder) []string {
	var refusal struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(reply.Body.Bytes(), &refusal) // a body that is no JSON lists nothing
	_, list, found := strings.Cut(refusal.Error, "expected some of ")
	if !found {
		return nil
	}
	return slices.Sorted(slices.Values(strings.Split(list, ", ")))
}
