package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Sessions holds the sessions of replicas, and the definitions that each session has.
type Sessions interface {
	// Open registers a session, which is live for its TTL from now.
	Open(ctx context.Context, s Session) error
	// Heartbeat renews the session for its TTL from now, and replaces its status. It returns
	// ErrSessionLost if the session is not live.
	Heartbeat(ctx context.Context, session uuid.UUID, v ReplicaStatus) (HeartbeatReply, error)
	// End ends the session. Other sessions can adopt its waiting runs at once. The next sweep
	// handles its claims as those of an expired session. A second transaction removes its
	// definitions. If that fails, the next sweep removes them.
	End(ctx context.Context, session uuid.UUID) error
	// LiveSessions implements locking.Sessions.
	LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
	// Register adds any number of definitions to the session, each of another job. A definition
	// replaces that of the same job. Register returns the version of each definition by name, or
	// ErrSessionLost if the session is not live. It may use several transactions.
	//
	// The store identifies a definition by its name and hash. It gives a new definition the next
	// version of the job, which never changes. A definition with only another description keeps its
	// version. See ActiveDefinition for what becomes active.
	//
	// If a job that counts as removed (see MaxAbsence) returns, it begins as a new job: its cursor
	// moves to the present.
	Register(ctx context.Context, session uuid.UUID, definitions []Definition) (map[string]int64,
		error)
	// Withdraw removes the definitions of any number of jobs from the session, and sets the Table
	// of the session. It may use several transactions. It does nothing if the session has ended.
	Withdraw(ctx context.Context, session uuid.UUID, table string, jobs []string) error
	// Versions returns the active definition of every job, by name.
	Versions(ctx context.Context) (map[string]ActiveDefinition, error)
}

// Session is the record that a replica is alive.
type Session struct {
	ID      uuid.UUID // made by the replica
	Replica string    // the name, unique among live replicas by configuration; not checked
	Version string    // of the binary
	TTL     time.Duration
	// ReplaceEarlier says that earlier sessions with the same Replica expire at once. A replica
	// with a configured name sets it at its start.
	ReplaceEarlier bool
	// LockServers identifies the replica's list of memcached servers; "" if unknown.
	LockServers string
	// Table identifies the cron table in the replica's configuration; "" is not compared.
	Table string
}

// ReplicaStatus is what a replica reports with each heartbeat.
type ReplicaStatus struct {
	// ClockOffset is the store's clock minus the replica's clock; nil before the first measurement.
	ClockOffset *time.Duration
	Workers     int
	Busy        int    // of the workers
	NotReady    string // why the replica cannot start runs; "" if it can
	// Stopping says that the replica finishes its running attempts and begins nothing else. Starts
	// that are under way may still be granted. Other sessions may adopt the waiting runs of the
	// session at once, also for further attempts, and no run waits behind them.
	Stopping  bool
	Databases []DatabaseState // of jobs, by name
}

// OffsetMilliseconds returns ClockOffset in milliseconds; nil if it is unknown.
func (v ReplicaStatus) OffsetMilliseconds() *int64 {
	if v.ClockOffset == nil {
		return nil
	}
	ms := v.ClockOffset.Round(time.Millisecond).Milliseconds()
	return &ms
}

// HeartbeatView is a heartbeat of a session as a replica read it. All times are those of the
// store's clock.
type HeartbeatView struct {
	At            time.Time // shortly before it was read
	LastHeartbeat time.Time
	ExpiresAt     time.Time
}

// HeartbeatReply answers a heartbeat.
type HeartbeatReply struct {
	Now    time.Time                // the store's clock
	Claims map[jobs.Token]uuid.UUID // all claims of the session, with their runs
	// Now was read between SentAt and AnsweredAt, which are times of this process with monotonic
	// readings. They leave out the wait for a connection. If they are zero, the caller uses the
	// times of its call.
	SentAt, AnsweredAt time.Time
	Definitions        int64 // grows when another definition becomes active
	// Generation and Draining are those of ControlState.
	Generation int64
	Draining   bool
	// Adoptable is whether Adopt may find runs for the session, if none are known.
	Adoptable bool
	// Open has the sessions that have not ended, in the order of History.Replicas. Their runs are
	// not counted, so Running is 0.
	Open []ReplicaView
}
