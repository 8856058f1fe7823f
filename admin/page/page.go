// Package page has the types that a replica and its page share. Programs use package admin, which
// has the page:
//
//	holdfast.New(holdfast.WithPage(admin.Page, "127.0.0.1:8080"), …)
//
// So only programs that import package admin link the page.
package page

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Maker makes the page of a replica. The page has the address admin.listen of the configuration.
// admin.Page is a Maker.
type Maker func(Parts) (Server, error)

// Server is a page with an address of its own.
type Server interface {
	Guarded
	// Listen binds the address, so that a used address is an error at start.
	Listen() error
	// Addr returns the address, or "" before Listen.
	Addr() string
	// Run serves until ctx ends, and then returns nil.
	Run(ctx context.Context) error
	// Close releases the address, for a page on which Run is never called.
	Close() error
}

// Option is an option of a page in a server of the program, such as admin.At("/holdfast/").
type Option interface {
	// Mount makes the page with all options.
	Mount(access Access, all []Option) (Mounted, error)
}

// Mounted is a page in a server of the program. It answers 503 before Begin and after End.
type Mounted interface {
	Guarded
	http.Handler
	// Begin gives the page the parts of a replica that has been opened.
	Begin(Parts) error
	// End takes the parts away, and ends the event streams.
	End() error
}

// Guarded is a page whose access can be replaced.
type Guarded interface {
	// CheckAccess returns the error that SetAccess would return, or nil.
	CheckAccess(Access) error
	// SetAccess replaces the access from the next request on.
	SetAccess(Access) error
}

// Access says who may use a page.
type Access struct {
	Config     configs.Admin
	Authorizer permission.Authorizer // decides about permissions; nil: the roles decide
}

// Parts are what the page shows of an open replica, and what it needs to perform actions. All
// functions must be safe for concurrent use. The comment of a field that may be nil says what nil
// means.
type Parts struct {
	Access
	Refresh time.Duration // of open pages that get no events
	Log     zerolog.Logger

	Replica string           // name of the replica
	Session func() uuid.UUID // of the replica; zero: none
	Version string           // of the binary
	// Ready returns why the replica can't start runs, or nil.
	Ready func(ctx context.Context) error

	Status        status.Options // with the actions of operators
	Store         storage.Store
	LoginAttempts storage.LoginAttempts
	SignOuts      storage.SignOuts
	Events        storage.AuditWriter
	Restarts      storage.Restarts // of memcached; nil: there is none
	Advisory      locks.Advisory   // nil: there are no advisory locks
	// Reload makes the replica read its configuration again. It returns a *ReloadError for
	// mistakes. Nil: the replica has no file.
	Reload func(ctx context.Context, by storage.Action) (Reloaded, error)

	// Heartbeats returns the heartbeats of a session that the replica saw in the last 10 minutes,
	// oldest first.
	Heartbeats func(session uuid.UUID) []storage.HeartbeatView

	// Upcoming returns the next firing after start of each job, the soonest first, at most n.
	Upcoming func(start time.Time, n int) []ScheduledFiring
	// ScheduledTimes returns the next scheduled times after start of a job, at most n.
	ScheduledTimes func(job string, start time.Time, n int) []time.Time
	// LongestWait returns how long a firing of a job waits for a lock that is held, but at most
	// limit. It returns false if that is not known.
	LongestWait func(job string, limit time.Duration) (time.Duration, bool)
	// WaitEnd returns when a waiting run stops waiting for its blocker, and false if that is not
	// known.
	WaitEnd func(run storage.Record) (storage.WaitEnd, bool)
	Table   explain.Table // the cron table of the replica
	Explain func(ctx context.Context, job, at string) (explain.Explanation, error)

	Metrics http.Handler              // for scrapes
	Trace   func(run uuid.UUID) Trace // of a run
}

// ScheduledFiring is the next firing of a job, by the replica's cron table.
type ScheduledFiring = cluster.ScheduledFiring

// Trace locates the spans of a run.
type Trace struct {
	ID   string // "" without a trace
	Link string // page that shows the trace, or ""
}

// Reloaded says what a reload of the configuration changed.
type Reloaded struct {
	Replica string `json:"replica"` // the one that reloaded
	// names of jobs, at most 50 of each
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
	// changed keys that apply after a restart, at most 50
	Restart []string `json:"restart"`
}

// ReloadError says that the configuration has mistakes, and that nothing has changed. It does not
// quote them, because they may quote values of the configuration.
type ReloadError struct {
	Mistakes int
}

// Error counts the mistakes.
func (e *ReloadError) Error() string {
	return fmt.Sprintf("reload: found %s in the configuration, which the log of the replica "+
		"lists; nothing has changed", words.Figure(e.Mistakes, "mistake", "mistakes"))
}
