package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Sessions registers replicas and their definitions.
type Sessions interface {
	// Open registers the session. It is live for its TTL from now.
	Open(ctx context.Context, s Session) error
	// Heartbeat renews a live session, whose TTL counts again from now, or returns ErrSessionLost.
	// The status replaces the previous one.
	Heartbeat(ctx context.Context, session uuid.UUID, v ReplicaStatus) (HeartbeatReply, error)
	// End ends the session. Its waiting runs can be adopted at once. Remaining claims are swept as
	// if the session had expired. A second transaction removes its definitions, so that they can no
	// longer be active. If that fails, the next sweep removes them.
	End(ctx context.Context, session uuid.UUID) error
	// LiveSessions implements locking.Sessions.
	LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
	// Register adds definitions to those that the session has already. Each definition of a call
	// belongs to a different job, and replaces the one that the session has of that job. Register
	// returns the version of each definition, by name, or ErrSessionLost if the session is not
	// live. A call with more than MaxBatch definitions may use a transaction per MaxBatch.
	//
	// Name and hash identify a definition. A new one gets the job's next version, for good. A
	// changed description is stored without a new version. The active definition is the newest
	// version that a live session has, or the previous active one if no live session has any. A
	// session that has expired may count until it is swept.
	//
	// If no replica had the job for longer than MaxAbsence while another session was live, the job
	// counts as new: its scheduled times count from now.
	Register(ctx context.Context, session uuid.UUID, definitions []Definition) (map[string]int64,
		error)
	// Withdraw removes jobs from the session, and sets the Table of its replica's configuration.
	// The active definitions of the jobs are then decided as at the end of a session: the newest
	// version of another live session, or the previous active one if there is none. It does nothing
	// for a session that has ended. The removal and the change of Table may be separate
	// transactions.
	Withdraw(ctx context.Context, session uuid.UUID, table string, jobs []string) error
	// Versions returns the active definition of every job, by name.
	Versions(ctx context.Context) (map[string]ActiveDefinition, error)
}

// Session says that a replica is alive. The store keeps it.
type Session struct {
	ID      uuid.UUID // made by the replica, new for each session
	Replica string    // unique among live replicas by configuration; not enforced
	Version string    // of the binary
	TTL     time.Duration
	// Succeeds says that earlier sessions of the replica's name must expire at once: the name is
	// configured, and its process has just started.
	Succeeds bool
	// LockServers identifies the replica's list of memcached servers; "" if it is unknown.
	LockServers string
	// Table identifies the cron table of the replica's configuration; "" is not compared.
	Table string
}

// ReplicaStatus is the status that a replica sends with each heartbeat.
type ReplicaStatus struct {
	// ClockOffset is how far the store's clock is ahead of the replica's wall clock; nil before the
	// first measurement.
	ClockOffset *time.Duration
	Workers     int
	Busy        int             // of the workers
	NotReady    string          // why the live replica cannot start runs; "" if it can
	Databases   []DatabaseState // of jobs, by name
}

// OffsetMilliseconds returns the clock offset in milliseconds; nil if it is unknown.
func (v ReplicaStatus) OffsetMilliseconds() *int64 {
	if v.ClockOffset == nil {
		return nil
	}
	ms := v.ClockOffset.Round(time.Millisecond).Milliseconds()
	return &ms
}

// HeartbeatReply is the answer to a heartbeat.
type HeartbeatReply struct {
	Now    time.Time                // the store's clock
	Claims map[jobs.Token]uuid.UUID // every claim of the session, with its run
	// Now was read between SentAt and AnsweredAt. They are times of this process's clock, with
	// monotonic readings: before and after the statement, without the wait for a connection. If
	// they are zero, the caller uses the times of the whole call.
	SentAt, AnsweredAt time.Time
	Definitions        int64 // grows when another definition of a job becomes active
}
