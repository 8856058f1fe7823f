package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/retry"
)

// Job is an entry of the cron table, with the type of its params. Give it to [WithJobs]. It has a
// field for every key of a job in a YAML file except for_each, and the same rules apply.
// configs/reference.yaml has the meaning and the limits of each value. A field that is not set has
// the default of its key.
//
// A job must say when it runs (Schedule or OnlyTriggered), what it does (Run or Handler) and what
// it locks (Writes, Reads, Resources or NoTables). Otherwise New returns an error.
type Job[P any] struct {
	Name        string // 1 to 200 bytes, unique among all jobs
	Description string

	Schedule      schedule.Spec // made by schedule.Cron, schedule.Every and their like
	OnlyTriggered bool          // instead of Schedule: it runs when it is triggered
	// Timezone is the IANA name of the schedule's zone. "" is the zone of the configuration, which
	// is UTC by default.
	Timezone     string
	ClockChanges configs.ClockChanges // the policy for local times that do not exist or exist twice
	Calendars    []string             // names of calendars that exclude scheduled times
	Jitter       time.Duration        // the most that a firing is delayed

	// Run executes one attempt. It may be called concurrently for several runs, and must return
	// soon after ctx ends. New registers Run as a handler with the name of the job.
	Run func(ctx context.Context, run *jobs.Run, params P) error
	// NeedsPostgres says that Run uses package postgres. With SQLite, New then returns an error.
	// For a Handler, jobs.Registration.NeedsPostgres says the same.
	NeedsPostgres bool
	Handler       string // instead of Run: the name of a registered or built-in handler
	Params        P      // its JSON is an object
	// Overridable are the keys of Params that a trigger can override; nil: none. The params of the
	// handler must have these keys.
	Overridable []string

	// Database is the name of the database, in the section databases, that has the tables; "" is
	// the database of the store.
	Database  string
	Writes    []string           // tables that it writes: exclusive locks
	Reads     []string           // tables that it only reads: shared locks
	Resources []configs.Resource // other locks
	NoTables  bool               // no Writes, Reads or Resources: it locks at most its own name

	Group    string
	Priority int           // 1 to 9, and 9 goes first; 0 is 5
	Timeout  time.Duration // of one attempt; 0 is none
	// from the scheduled time to the start, more than Jitter; 0 is none
	Deadline time.Duration
	// Retry is what follows an attempt that failed. A field that is not set has its default. The
	// default of Attempts is 1, so New refuses a policy that has other fields, but no Attempts.
	// With configs.UnlimitedAttempts only Elapsed limits the attempts.
	Retry retry.Policy
	// Wait is what happens while a lock is held. A field that is not set has the value of
	// locking.wait. A Reserve of locking.NeverReserve reserves nothing, and with
	// configs.UnlimitedAttempts only Elapsed limits the tries.
	Wait             configs.Wait
	Overlap          jobs.Overlap // "" is jobs.OverlapSkip
	Misfire          configs.Misfire
	MisfireThreshold time.Duration
	Recover          bool // run again if the replica died; three times at most
}

// AnyJob is a [Job] with params of any type.
type AnyJob interface{ build() builtJob }

// builtJob is a Job as the configuration has it, its mistakes, and its handler if it brings one.
type builtJob struct {
	configs.Job
	mistakes []configs.Mistake
	handler  *jobs.Registration
}

func (j Job[P]) build() builtJob {
	b := builtJob{Job: configs.Job{
		Name: j.Name, Description: j.Description,
		Spec: j.Schedule, Timezone: j.Timezone, ClockChanges: j.ClockChanges,
		Calendars: j.Calendars, Jitter: j.Jitter, Overridable: j.Overridable,
		Handler: j.Handler, Database: j.Database, Tables: j.Writes, ReadTables: j.Reads,
		Resources: j.Resources,
		Group:     j.Group, Priority: j.Priority, Timeout: j.Timeout, Deadline: j.Deadline,
		Retry: j.Retry, Wait: j.Wait, Overlap: string(j.Overlap), Misfire: j.Misfire,
		MisfireThreshold: j.MisfireThreshold, Recover: j.Recover,
	}}
	mistake := func(key, message string) {
		b.mistakes = append(b.mistakes, configs.Mistake{Key: key, Message: message})
	}
	params, err := configs.NewParams(j.Params)
	if err != nil {
		mistake("params", "found a value without JSON: "+err.Error())
	}
	b.Job.Params = params
	switch scheduled := !j.Schedule.IsZero(); {
	case !scheduled && !j.OnlyTriggered:
		mistake("schedule", "found nothing, expected a Schedule such as "+
			`schedule.Cron("*/5 * * * *"), or OnlyTriggered: true`)
	case scheduled && j.OnlyTriggered:
		mistake("schedule", "found a Schedule and OnlyTriggered, expected one of them")
	}
	switch {
	case j.Run == nil && j.Handler == "":
		mistake("handler", "found nothing, expected a function in Run, or the name of a handler "+
			"in Handler")
	case j.Run != nil && j.Handler != "":
		mistake("handler", "found Run and Handler, expected one of them")
	case j.Run == nil && j.NeedsPostgres:
		mistake("handler", "found NeedsPostgres without Run, expected NeedsPostgres() of the "+
			"registration of the handler")
	case j.Run != nil:
		handler := jobs.Handle(j.Name, j.Run)
		if j.NeedsPostgres {
			handler = handler.NeedsPostgres()
		}
		b.Job.Handler, b.handler = j.Name, &handler
	}
	switch locks := len(j.Writes)+len(j.Reads)+len(j.Resources) > 0; {
	case !locks && !j.NoTables:
		mistake("tables", "found nothing, expected Writes, Reads or Resources, or NoTables: true")
	case locks && j.NoTables:
		mistake("tables", "found locks and NoTables, expected one of them")
	}
	return b
}
