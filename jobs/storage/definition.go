package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Define returns the definition of the job. The hash covers everything that decides when and how
// the job is fired, and nothing else. So a new description, or another order of keys, does not
// change it.
func Define(job jobs.Job, requests []locking.Request) (Definition, error) {
	shown, err := job.DeclaredRequests()
	if err != nil {
		return Definition{}, err
	}
	resources := make([]string, len(requests)) // sorted, because they are in normal form
	for i, r := range requests {
		resources[i] = fmt.Sprintf("%s %s %d", r.Resource.Key(), r.Mode, r.Slots)
	}
	params, err := canonical(job.Params)
	if err != nil {
		return Definition{}, fmt.Errorf("params: %w", err)
	}
	fields := map[string]any{
		"schedule": job.Schedule.Fingerprint(), "timezone": job.Schedule.Zone().String(),
		"handler": job.Handler, "params": params,
		"resources": resources, "wait": job.Wait, "reserve": job.ReserveTime().String(),
		"overlap": job.Overlap, "misfire": job.Misfire,
		"misfire_threshold": job.MisfireThreshold.String(), "timeout": job.Timeout.String(),
		"retry": job.Retry, "recover": job.Recover,
		"group": job.Group, "priority": job.EffectivePriority(), "deadline": job.Deadline.String(),
		"misfire_by": job.EffectiveMisfireRules(),
		"places":     job.GroupLimits.PerReplica,
	}
	if len(job.Hooks) > 0 { // jobs without hooks keep the hash that they had before hooks existed
		fields["hooks"] = jobs.SortedHooks(job.Hooks)
	}
	decisive, err := json.Marshal(fields)
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	sum := sha256.Sum256(decisive)
	return Definition{
		Name: job.Name, Hash: hex.EncodeToString(sum[:16]), Schedule: job.Schedule.String(),
		Zone:        job.Schedule.Zone().String(),
		Fingerprint: job.Schedule.Fingerprint(),
		Handler:     job.Handler, Resources: shown, MayOverlap: job.Overlap == jobs.OverlapAllow,
		Recover: job.Recover, Description: job.Description,
		Hooks: jobs.SortedHooks(job.Hooks),
		Group: job.Group, After: job.Schedule.After(), Priority: job.EffectivePriority(),
		Source: FromConfig,
	}, nil
}

// Requests returns everything that a run of the job locks: its resources and, unless its runs may
// overlap, the job's own name.
func (d Definition) Requests() ([]locking.Request, error) {
	return locking.OfJob(d.Name, d.Resources, d.MayOverlap)
}

// OfSpec returns the definition for a job that was added at run time. The hash includes the version
// of the spec, so that a change back to an earlier text is a new definition.
func (d Definition) OfSpec(version int64) Definition {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s of spec %d", d.Hash, version))
	d.Hash, d.Source = hex.EncodeToString(sum[:16]), FromStore
	return d
}

// canonical returns params in a form that does not depend on the order of keys or on white space.
// Numbers stay as they are written.
func canonical(params json.RawMessage) (any, error) {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}
