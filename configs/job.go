package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Job is one entry of the cron table. What the file leaves out is filled in
// from the Config around it or from the defaults.
type Job struct {
	Name        string `yaml:"name"` // 1 to 200 bytes, unique
	Description string `yaml:"description"`
	// ForEach makes a job of it for each item. In a Config that was read all
	// have been made, and none has it.
	ForEach  ForEach       `yaml:"for_each"`
	Spec     schedule.Spec `yaml:"schedule"` // as written; zero: only triggered
	Timezone string        `yaml:"timezone"`
	// ClockChanges is for schedules that are read in a zone.
	ClockChanges ClockChanges `yaml:"clock_changes"`
	Calendars    []string     `yaml:"calendars"` // names: each may exclude scheduled times
	// Jitter is by how much at most a scheduled time is delayed, by a hash of job and due.
	Jitter     time.Duration `yaml:"jitter" min:"0s" max:"24h"`
	Handler    string        `yaml:"handler"`
	Tables     []string      `yaml:"tables"`      // written: locked exclusively
	ReadTables []string      `yaml:"read_tables"` // read: locked shared
	Resources  []Resource    `yaml:"resources"`   // anything else
	Params     Params        `yaml:"params"`
	Group      string        `yaml:"group"` // whose limits and pauses it shares; "": none
	Priority   int           `yaml:"priority" min:"1" max:"9"`
	// after the scheduled time, to start; 0: none
	Deadline time.Duration `yaml:"deadline" min:"0s" max:"168h"`
	Timeout  time.Duration `yaml:"timeout" min:"0s" max:"168h"` // of one attempt; 0: none
	Retry    retry.Policy  `yaml:"retry"`                       // of the handler, after an error
	Wait     Wait          `yaml:"wait" delay:"10ms"`           // for held resources
	Misfire  Misfire       `yaml:"misfire"`
	// MisfireThreshold is how late a firing may start before it is a misfire.
	MisfireThreshold time.Duration `yaml:"misfire_threshold" min:"1s" max:"168h"`
	Overlap          string        `yaml:"overlap" oneof:"skip, queue, allow"`
	Recover          bool          `yaml:"recover"`

	// Schedule is Spec, parsed in Timezone, with ClockChanges, Calendars and Jitter.
	Schedule schedule.Schedule `yaml:"-"`
	// Requests is Tables, ReadTables and Resources in locking's normal form,
	// placeholders replaced.
	Requests []locking.Request `yaml:"-"`

	read digest // as Parse returned it
}

// ClockChanges says what becomes of local times that a change of clocks leaves
// out or brings back.
type ClockChanges struct {
	Gap     string `yaml:"gap" oneof:"run, skip"`       // run after the gap, or not at all
	Overlap string `yaml:"overlap" oneof:"first, both"` // of two times that look alike
}

// Resource is a lock on something that is no table.
type Resource struct {
	Name string `yaml:"name"`
	// Slots is how many runs may hold it at the same time; 0 means that it is
	// locked exclusively.
	Slots int `yaml:"slots" min:"1" max:"1000"`
}

// Misfire says what becomes of firings that were not started in time, by what
// kept them. In the file it may be one policy, which is for the first two causes.
type Misfire struct {
	NobodyUp string `yaml:"nobody_up" oneof:"run_once, skip, run_all"`
	NoWorker string `yaml:"no_worker" oneof:"run_once, skip, run_all"`
	Paused   string `yaml:"paused" oneof:"run_once, skip, run_all"`
	LockHeld string `yaml:"lock_held" oneof:"run_once, skip, run_all"`
	Limit    int    `yaml:"limit" min:"1" max:"1000"` // of run_all
	// what is older is not run late; 0: no limit
	MaxAge time.Duration `yaml:"max_age" min:"0s" max:"24000h"`
}
