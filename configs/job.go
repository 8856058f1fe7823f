package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Job is an entry of the cron table. Missing values come from the Config or from the defaults.
type Job struct {
	Name        string `yaml:"name"` // 1 to 200 bytes, unique
	Description string `yaml:"description"`
	// ForEach expands the job to one instance per item. In a Config that was read, all jobs are
	// expanded and ForEach is empty.
	ForEach  ForEach       `yaml:"for_each"`
	Spec     schedule.Spec `yaml:"schedule"` // as written; zero: no schedule
	Timezone string        `yaml:"timezone"`
	// ClockChanges applies to schedules with local times.
	ClockChanges ClockChanges `yaml:"clock_changes"`
	// names of calendars, each of which may exclude scheduled times
	Calendars []string `yaml:"calendars"`
	// Jitter is the maximum delay of a firing. The delay is a hash of job and scheduled time.
	Jitter  time.Duration `yaml:"jitter" min:"0s" max:"24h"`
	Handler string        `yaml:"handler"`
	// Database is the name of the database of Tables and ReadTables; "": that of the store.
	Database   string     `yaml:"database"`
	Tables     []string   `yaml:"tables"`      // written tables: exclusive locks
	ReadTables []string   `yaml:"read_tables"` // read tables: shared locks
	Resources  []Resource `yaml:"resources"`   // other resources
	Params     Params     `yaml:"params"`
	// Overridable are the keys of Params that a trigger can override.
	Overridable []string `yaml:"overridable"`
	Group       string   `yaml:"group"` // group with limits and pauses; "": none
	Priority    int      `yaml:"priority" min:"1" max:"9"`
	// longest time from the scheduled time to the start; 0: none
	Deadline time.Duration `yaml:"deadline" min:"0s" max:"168h"`
	Timeout  time.Duration `yaml:"timeout" min:"0s" max:"168h"` // of one attempt; 0: none
	Retry    retry.Policy  `yaml:"retry"`                       // of the handler, after an error
	Wait     Wait          `yaml:"wait" delay:"10ms"`           // for held resources
	Misfire  Misfire       `yaml:"misfire"`
	// MisfireThreshold is how late a firing may start before it counts as a misfire.
	MisfireThreshold time.Duration `yaml:"misfire_threshold" min:"1s" max:"168h"`
	Overlap          string        `yaml:"overlap" oneof:"skip, queue, allow"`
	Recover          bool          `yaml:"recover"`

	// Schedule is the parsed Spec, with Timezone, ClockChanges, Calendars and Jitter.
	Schedule schedule.Schedule `yaml:"-"`
	// Requests are the normalized Tables, ReadTables and Resources, with placeholders replaced.
	Requests []locking.Request `yaml:"-"`

	read digest // as Parse returned it
}

// ClockChanges is how to handle local times that a clock change skips or repeats.
type ClockChanges struct {
	Gap     string `yaml:"gap" oneof:"run, skip"`       // skipped time: run after the gap, or skip
	Overlap string `yaml:"overlap" oneof:"first, both"` // repeated time: the first one, or both
}

// Resource is a lock on a resource other than a table.
type Resource struct {
	Name string `yaml:"name"`
	// Slots is how many runs may hold the resource at the same time; 0 is an exclusive lock.
	Slots int `yaml:"slots" min:"1" max:"1000"`
}

// Misfire is the policy for firings that did not start in time, by cause. In the file it may be a
// single policy for the first two causes.
type Misfire struct {
	NoReplica string `yaml:"no_replica" oneof:"run_once, skip, run_all"`
	NoWorker  string `yaml:"no_worker" oneof:"run_once, skip, run_all"`
	Paused    string `yaml:"paused" oneof:"run_once, skip, run_all"`
	LockHeld  string `yaml:"lock_held" oneof:"run_once, skip, run_all"`
	Limit     int    `yaml:"limit" min:"1" max:"1000"` // of run_all
	// maximum age of a firing that runs late; 0: no limit
	MaxAge time.Duration `yaml:"max_age" min:"0s" max:"24000h"`
}
