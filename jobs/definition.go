package jobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// define returns the definition of the job. The hash covers everything that decides when and how
// the job is fired, and nothing else. So a new description, or another order of keys, does not
// change it.
func define(job Job, requests []locking.Request) (Definition, error) {
	shown, err := job.shownRequests()
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
		"resources": resources, "wait": job.Wait, "reserve": job.reserve().String(),
		"overlap": job.Overlap, "misfire": job.Misfire,
		"misfire_threshold": job.MisfireThreshold.String(), "timeout": job.Timeout.String(),
		"retry": job.Retry, "recover": job.Recover,
		"group": job.Group, "priority": job.priority(), "deadline": job.Deadline.String(),
		"misfire_by": job.misfireRules(),
		"places":     job.GroupLimits.PerReplica,
	}
	if len(job.Hooks) > 0 { // jobs without hooks keep the hash that they had before hooks existed
		fields["hooks"] = sortedHooks(job.Hooks)
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
		Handler:     job.Handler, Resources: shown, MayOverlap: job.Overlap == OverlapAllow,
		Recover: job.Recover, Description: job.Description,
		Hooks: sortedHooks(job.Hooks),
		Group: job.Group, After: job.Schedule.After(), Priority: job.priority(), Source: FromConfig,
	}, nil
}

// Requests returns everything that a run of the job locks: its resources and, unless its runs may
// overlap, the job's own name.
func (d Definition) Requests() ([]locking.Request, error) {
	if d.MayOverlap {
		return locking.Normalize(d.Resources)
	}
	own, err := locking.Job(d.Name)
	if err != nil {
		return nil, err
	}
	return locking.Normalize(append(slices.Clone(d.Resources),
		locking.Request{Resource: own, Mode: locking.Exclusive}))
}

// ofSpec returns the definition for a job that was added at run time. The hash includes the version
// of the spec, so that a change back to an earlier text is a new definition.
func (d Definition) ofSpec(version int64) Definition {
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

// activeVersion is the active version of a job and the version that this replica has, as last read
// from the store. The session's keeper sets it. It may be read concurrently.
type activeVersion struct {
	version atomic.Int64 // version of this replica's definition; 0 until it is registered
	active  atomic.Int64 // version of the active definition
	decided atomic.Int64 // the job's cursor, in microseconds since 1970
}

// register sets the version of this replica's definition. It counts as active until the active
// version is known.
func (s *activeVersion) register(version int64) {
	s.version.Store(version)
	s.active.CompareAndSwap(0, version)
}

// stale reports whether this replica must not fire the job: another definition is active, or the
// active definition and the cursor are not known yet.
func (s *activeVersion) stale() bool { return !s.known() || s.otherIsActive() }

// known reports whether the active version was read from the store.
func (s *activeVersion) known() bool { return s.version.Load() != 0 && s.decided.Load() != 0 }

// otherIsActive reports whether another definition is known to be active.
func (s *activeVersion) otherIsActive() bool { return s.version.Load() != s.active.Load() }

// decidedUntil returns the time up to which all scheduled times have a run or a record, or do not
// count. It may lag behind the store.
func (s *activeVersion) decidedUntil() time.Time { return time.UnixMicro(s.decided.Load()).UTC() }

func (s *activeVersion) decide(until time.Time) { s.decided.Store(until.UnixMicro()) }

// update sets the active version, and reports whether that changes who fires the job.
func (s *activeVersion) update(now ActiveDefinition) (changed bool) {
	before := s.stale()
	s.decide(now.CheckedUntil)
	s.active.Store(now.Version)
	return s.stale() != before
}

// oldest returns the time after which scheduled times may still be started at now, if their delays
// allow it. Earlier ones belong to the misfire policy, or do not count.
func (e *entry) oldest(now time.Time) time.Time {
	oldest := now.Add(-e.MisfireThreshold - e.Schedule.MaxDelay())
	if decided := e.activeVersion.decidedUntil(); decided.After(oldest) {
		return decided
	}
	return oldest
}
