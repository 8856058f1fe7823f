package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Options are the options of a Scheduler.
type Options struct {
	Store    Store
	RunStore storage.RunStore // Store itself, or the store that Store decorates
	// Databases are those of jobs with a Database, by name.
	Databases Databases
	Locker    *locking.Locker // nil without memcached
	Registry  *jobs.Registry
	Jobs      []jobs.Job
	// Build returns the Job of the text of a Spec. Without it, added jobs are left to other
	// replicas.
	Build func(text json.RawMessage) (jobs.Job, error)

	Replica string // this replica's name
	// ReplaceEarlier says that Replica is a configured name, which no other live process has.
	// Earlier sessions of that name then expire at once.
	ReplaceEarlier bool
	Version        string // of the binary
	// LockServers identifies the memcached servers and their order. Replicas that differ in it are
	// logged and counted. "" is not compared.
	LockServers string

	// MaxClockOffset is the largest difference between this machine's clock and the store's at
	// which runs start on this replica; 0: no limit.
	MaxClockOffset time.Duration

	Workers int // firings that run at once; at least 1
	// CatchUp is how many workers may run late runs and runs of backfills at once, so that current
	// firings also run after an outage. 0 is a quarter of the workers, at least one.
	CatchUp   int
	Heartbeat time.Duration // between renewals of the session
	// the time from the last renewal to the expiry of a session; at least 3 heartbeats
	SessionTTL    time.Duration
	ShutdownGrace time.Duration // how long runs may go on after the context of Run ended
	// KeepHistory is how long the store keeps ended runs; 0: no limit. If replicas differ, the
	// shortest counts.
	KeepHistory time.Duration
	// KeepTriggered is the same for runs of triggers, at most KeepHistory; 0: KeepHistory.
	KeepTriggered time.Duration
	// SealAudit makes this replica add links to the audit log.
	SealAudit bool
	// SkipWithoutLocks skips firings while memcached does not answer, instead of leaving them to
	// the store alone.
	SkipWithoutLocks bool

	// Unpaced lets work begin at once instead of gathering in batches (see paces). So a replica
	// does all that is due while its clock stands still: for tests with a clock of their own.
	Unpaced bool

	Middleware []jobs.Middleware // wraps all handlers, the outermost first
	Listeners  []jobs.Listener   // get the events of this replica
	// Observer, if set, is called with each event by the goroutine of the firing: concurrently. It
	// must return at once and not panic. It must not change the event.
	Observer func(*jobs.Event)
	Tracing  Tracing // nil: no tracing

	Log zerolog.Logger
	// LogOutput is where Log writes. Logs of handlers go there and to the output of their runs;
	// with nil only to the output.
	LogOutput io.Writer
}

func (o *Options) check() error {
	var problems []error
	if o.Store == nil || o.RunStore == nil || o.Registry == nil {
		problems = append(problems,
			errors.New("a scheduler needs a store, a store of its runs and a registry"))
	}
	if o.Replica == "" {
		problems = append(problems, errors.New("a replica needs a name"))
	}
	if o.Workers < 1 {
		problems = append(problems, fmt.Errorf("workers: at least 1, found %d", o.Workers))
	}
	if o.CatchUp < 0 || o.CatchUp > max(o.Workers, 1) {
		problems = append(problems,
			fmt.Errorf("workers for late runs: 0 to %d, found %d", o.Workers, o.CatchUp))
	}
	if o.Heartbeat <= 0 || o.SessionTTL < 3*o.Heartbeat {
		problems = append(problems,
			fmt.Errorf("session: expires after at least 3 heartbeats, found %s and %s",
				o.SessionTTL, o.Heartbeat))
	}
	return errors.Join(problems...)
}
