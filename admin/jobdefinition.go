package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// JobDefinition is the part of a job's definition that the store does not have. It is from the cron
// table of the replica that answers.
type JobDefinition struct {
	// the replica has another definition of the job than the active one
	Inactive bool `json:"inactive,omitempty"`
	// with [redacted] in place of secrets; absent without the permission edit_jobs
	Params      json.RawMessage  `json:"params,omitempty"`
	Overridable []string         `json:"overridable,omitempty"` // params a trigger can override
	Database    string           `json:"database,omitempty"`    // absent: that of the store
	Calendars   []string         `json:"calendars,omitempty"`   // that exclude scheduled times
	After       []string         `json:"after,omitempty"`       // its dependencies
	Dependents  []string         `json:"dependents,omitempty"`  // jobs that depend on it
	Webhooks    []JobWebhook     `json:"webhooks,omitempty"`
	Policies    []explain.Policy `json:"policies"`
}

// JobWebhook is a webhook that is notified of the ends of a job's runs.
type JobWebhook struct {
	Webhook string       `json:"webhook"`
	States  []jobs.State `json:"states"`
}

// addDefinition adds what the cron table of this replica has of a job.
func (r *reader) addDefinition(ctx context.Context, now time.Time, view storage.JobView,
	d *JobDetail) error {
	d.Definition = r.definition(view)
	edges, err := r.dependencies.Get(ctx, now)
	if err != nil {
		return fmt.Errorf("dependencies of job %q: %w", words.Cut(view.Name, 200), err)
	}
	d.Graph = charts.NewGraph(view.Name, edges.After, edges.Dependents)
	if d.Definition != nil {
		d.Definition.After = edges.After(view.Name)
		d.Definition.Dependents = edges.Dependents(view.Name)
	}
	return nil
}

// definition returns the definition of a job in the cron table of this replica, or nil if it is not
// there.
func (r *reader) definition(view storage.JobView) *JobDefinition {
	if r.table == nil {
		return nil
	}
	job, found := r.table.Job(view.Name)
	if !found {
		return nil
	}
	params := job.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	return &JobDefinition{
		Inactive: r.table.Hash(view.Name) != view.Hash,
		Params:   redact.Params(params, job.Secrets), Overridable: job.Overridable,
		Database: job.Database, Calendars: job.Schedule.Calendars(),
		Webhooks: webhooksOf(job.Hooks), Policies: explain.Policies(&job),
	}
}

// webhooksOf returns the webhooks by name.
func webhooksOf(hooks []jobs.Hook) (list []JobWebhook) {
	states := make(map[string][]jobs.State)
	for _, h := range hooks {
		states[h.Webhook] = append(states[h.Webhook], h.State)
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		slices.Sort(states[name])
		list = append(list, JobWebhook{name, slices.Compact(states[name])})
	}
	return list
}

// StateWords lists the states.
func (w JobWebhook) StateWords() string {
	texts := make([]string, len(w.States))
	for i, state := range w.States {
		texts[i] = words.State(state)
	}
	return strings.Join(texts, ", ")
}

// shownParam is a param of a job. Its texts are blocks, such as statements, unless it is short.
type shownParam struct {
	Key   string
	Short string
	Texts []string
}

// Open reports whether the texts are few lines, which are shown at once.
func (p shownParam) Open() bool {
	const most = 16
	return strings.Count(strings.Join(p.Texts, "\n"), "\n") < most
}

// ShownParams returns the params by key.
func (d *JobDefinition) ShownParams() []shownParam {
	var values map[string]json.RawMessage
	if len(d.Params) == 0 || json.Unmarshal(d.Params, &values) != nil {
		return nil
	}
	params := make([]shownParam, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		params = append(params, newShownParam(key, values[key]))
	}
	return params
}

func newShownParam(key string, value json.RawMessage) shownParam {
	const short = 60
	p := shownParam{Key: key}
	var text string
	var list []string
	switch {
	case json.Unmarshal(value, &text) == nil:
		p.Texts = []string{text}
	case key == "statements" && json.Unmarshal(value, &list) == nil:
		p.Texts = list
		return p
	default:
		text = string(value)
		var indented bytes.Buffer
		if json.Indent(&indented, value, "", "  ") != nil {
			indented.Reset() // valid JSON does not fail
		}
		p.Texts = []string{indented.String()}
	}
	if len(text) <= short && !strings.Contains(text, "\n") {
		p.Short, p.Texts = text, nil
	}
	return p
}
