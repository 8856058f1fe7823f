package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// entry is a job that is ready to be fired: its handler is bound, its
// requests are in normal form.
type entry struct {
	Job
	handle     HandlerFunc
	requests   []locking.Request
	definition Definition
	version    int64       // of the definition in the store, from registration on
	stale      atomic.Bool // the store has a newer definition: others fire it
}

// cronTable is what a replica fires, by name.
type cronTable map[string]*entry

// newCronTable binds every job, and reports all mistakes at once.
func newCronTable(registry *Registry, jobs []Job) (cronTable, error) {
	table := make(cronTable, len(jobs))
	var problems []error
	for _, job := range jobs {
		e, err := newEntry(registry, job)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("job %q: %w", job.Name, err))
		case table[job.Name] != nil:
			problems = append(problems, fmt.Errorf("job %q: defined twice", job.Name))
		default:
			table[job.Name] = e
		}
	}
	return table, errors.Join(problems...)
}

func newEntry(registry *Registry, job Job) (*entry, error) {
	handle, err := registry.Bind(job.Handler, job.Params)
	if err != nil {
		return nil, err
	}
	requests, err := job.requests()
	if err != nil {
		return nil, err
	}
	if job.Overlap == OverlapAllow && slices.ContainsFunc(requests, func(r locking.Request) bool { return r.Mode == locking.Exclusive }) {
		return nil, fmt.Errorf("overlap: %q is only for jobs without exclusive resources", OverlapAllow)
	}
	if job.MisfireThreshold < time.Second {
		return nil, fmt.Errorf("misfire threshold: at least 1s, found %s", job.MisfireThreshold)
	}
	definition, err := define(job)
	return &entry{Job: job, handle: handle, requests: requests, definition: definition}, err
}

// define describes the job for the store. The hash covers whatever decides
// what is fired and how.
func define(job Job) (Definition, error) {
	resources := make([]string, len(job.Resources))
	for i, r := range job.Resources {
		resources[i] = fmt.Sprintf("%s %s %d", r.Resource.Key(), r.Mode, r.Slots)
	}
	params := job.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	description, err := json.Marshal(map[string]any{
		"description": job.Description, "schedule": job.Schedule.Fingerprint(), "timezone": job.Schedule.Zone().String(), "handler": job.Handler, "params": params,
		"resources": resources, "wait": job.Wait, "overlap": job.Overlap, "misfire": job.Misfire,
		"misfire_threshold": job.MisfireThreshold.String(), "timeout": job.Timeout.String(), "retry": job.Retry, "recover": job.Recover,
	})
	if err != nil {
		return Definition{}, fmt.Errorf("params: %w", err)
	}
	sum := sha256.Sum256(description)
	return Definition{
		Name: job.Name, Hash: hex.EncodeToString(sum[:16]), Schedule: job.Schedule.String(), Zone: job.Schedule.Zone().String(),
		Handler: job.Handler, Resources: job.Resources, Description: job.Description,
	}, nil
}

// definitions returns what Register writes.
func (t cronTable) definitions() []Definition {
	all := make([]Definition, 0, len(t))
	for _, e := range t {
		all = append(all, e.definition)
	}
	return all
}

// names returns the jobs' names, sorted.
func (t cronTable) names() []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Due is an instant at which a job is to be fired.
type Due struct {
	Job       string
	Due       time.Time
	Resources []locking.Request
}

// upcoming returns the first due after from of each job, the soonest first,
// at most n of them.
func (t cronTable) upcoming(from time.Time, n int) []Due {
	var dues []Due
	for _, e := range t {
		if due := e.Schedule.Next(from); !due.IsZero() {
			dues = append(dues, Due{Job: e.Name, Due: due.UTC(), Resources: e.Resources})
		}
	}
	slices.SortFunc(dues, func(a, b Due) int { return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.Job, b.Job)) })
	return dues[:min(n, len(dues))]
}
