package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Definition is everything in a job that decides when and how it is fired, with a description.
type Definition struct {
	Name     string
	Hash     string // see Define
	Schedule string // for display
	Zone     string
	// Fingerprint is equal for schedules with the same scheduled times and jitter, apart from Zone:
	// see schedule.Schedule.Fingerprint. If it is "" in the old or the new definition, stores
	// compare Schedule instead. History need not return it.
	Fingerprint string
	Handler     string
	Resources   []locking.Request // without the job's own name
	MayOverlap  bool              // runs of the job may overlap
	Recover     bool              // a lost run is recovered
	Group       string
	After       []string // its dependencies
	Priority    int      // 1 to 9; 9 goes first

	Hooks []jobs.Hook // webhooks to notify of the ends of its runs

	Description string // not covered by Hash
	Source      Source // not covered by Hash
}

// Source is where a job comes from.
type Source string

// The sources.
const (
	FromConfig Source = "config" // the configuration file, or the program itself
	FromStore  Source = "store"  // added at run time
)

// ActiveDefinition is the active definition of a job, with the job's cursor. It is the newest
// version that a live session has. If no live session has the job, the previous one stays active. A
// session that has expired may count until it is swept.
type ActiveDefinition struct {
	// negative if the job was removed: no version is active then
	Version      int64
	CheckedUntil time.Time // as in Cursor
}

// MaxAbsence is how long a job may be absent. A job is absent while no session has it. An absent
// job counts as removed as soon as one session has been live for longer than MaxAbsence during the
// absence. Then its waiting runs end, and the scheduled times of the absence do not count. If the
// job returns before that, the misfire policy decides on these times.
const MaxAbsence = time.Hour

// SessionsKept is how long a session is shown after its end.
const SessionsKept = time.Hour

// Define returns the definition of the job. The hash covers everything that decides when and how
// the job is fired. A new description, or another order of keys, does not change it.
func Define(job jobs.Job, requests []locking.Request) (Definition, error) {
	hash, err := hashOf(&job, requests)
	if err != nil {
		return Definition{}, err
	}
	return Describe(&job, hash)
}

// Describe returns the definition of the job with the given hash.
func Describe(job *jobs.Job, hash string) (Definition, error) {
	shown, err := job.DeclaredRequests()
	if err != nil {
		return Definition{}, err
	}
	return Definition{
		Name: job.Name, Hash: hash, Schedule: job.Schedule.String(),
		Zone:        job.Schedule.Zone().String(),
		Fingerprint: job.Schedule.Fingerprint(),
		Handler:     job.Handler, Resources: shown, MayOverlap: job.Overlap == jobs.OverlapAllow,
		Recover: job.Recover, Description: job.Description,
		Hooks: sortedHooks(job.Hooks),
		Group: job.Group, After: job.Schedule.After(), Priority: job.EffectivePriority(),
		Source: FromConfig,
	}, nil
}

// decisiveFields is everything that decides when and how a job is fired. Hashes depend on the names
// and the order. Jobs without hooks and databases have the hash that they had before those existed.
type decisiveFields struct {
	Database         string            `json:"database,omitempty"`
	Deadline         string            `json:"deadline"`
	Group            string            `json:"group"`
	Handler          string            `json:"handler"`
	Hooks            []jobs.Hook       `json:"hooks,omitempty"`
	Misfire          jobs.Misfire      `json:"misfire"`
	MisfireBy        jobs.MisfireRules `json:"misfire_by"`
	MisfireThreshold string            `json:"misfire_threshold"`
	Overlap          jobs.Overlap      `json:"overlap"`
	Params           any               `json:"params"`
	Places           int               `json:"places"`
	Priority         int               `json:"priority"`
	Recover          bool              `json:"recover"`
	Reserve          string            `json:"reserve"`
	Resources        []string          `json:"resources"`
	Retry            retry.Policy      `json:"retry"`
	Schedule         string            `json:"schedule"`
	Timeout          string            `json:"timeout"`
	Timezone         string            `json:"timezone"`
	Wait             retry.Policy      `json:"wait"`
}

// hashOf returns the hash of the job's definition.
func hashOf(job *jobs.Job, requests []locking.Request) (string, error) {
	resources := make([]string, len(requests)) // sorted, because they are in normal form
	for i, r := range requests {
		resources[i] = fmt.Sprintf("%s %s %d", r.Resource.Key(), r.Mode, r.Slots)
	}
	params, err := canonical(job.Params)
	if err != nil {
		return "", fmt.Errorf("params: %w", err)
	}
	decisive, err := json.Marshal(decisiveFields{
		Database: job.Database, Deadline: job.Deadline.String(), Group: job.Group,
		Handler: job.Handler, Hooks: sortedHooks(job.Hooks), Misfire: job.Misfire,
		MisfireBy: job.EffectiveMisfireRules(), MisfireThreshold: job.MisfireThreshold.String(),
		Overlap: job.Overlap, Params: params, Places: job.GroupLimits.PerReplica,
		Priority: job.EffectivePriority(), Recover: job.Recover,
		Reserve: job.ReserveTime().String(), Resources: resources, Retry: job.Retry,
		Schedule: job.Schedule.Fingerprint(), Timeout: job.Timeout.String(),
		Timezone: job.Schedule.Zone().String(), Wait: job.Wait,
	})
	if err != nil {
		return "", fmt.Errorf("definition: %w", err)
	}
	sum := sha256.Sum256(decisive)
	return hex.EncodeToString(sum[:16]), nil
}

// Requests returns what a run of the job locks: Resources and, unless MayOverlap, the job's own
// name.
func (d Definition) Requests() ([]locking.Request, error) {
	return locking.OfJob(d.Name, d.Resources, d.MayOverlap)
}

// HashOfSpec returns the hash for a job that was added at run time. It covers the hash of the
// definition and the version of the spec. So a change back to an earlier text is a new definition.
func HashOfSpec(hash string, version int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s of spec %d", hash, version))
	return hex.EncodeToString(sum[:16])
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
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return value, nil
}
