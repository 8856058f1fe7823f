// Package jobs fires jobs: for each scheduled time once in the cluster, on one replica, with the
// resources of the job locked.
//
// # One firing
//
// These files follow a firing from its tick to its release:
//
//	timetable.go   a heap of the next scheduled times, and of those that jitter delays
//	dispatcher.go  tick: due firings become ready, and a free worker takes the first one
//	ready.go       the queue of ready firings, in the order of priority
//	firing.go      gate, lock, start; wait and try again while a lock is held; skip in the end
//	perform.go     run the handler under its claim, record the end, release
//	spans.go       the spans of a traced run
//	engine.go      shared parts of firings; calls to the store are batched
//	session.go     one heartbeat renews the session of a replica, and with it all its claims
//	activation.go  which definitions of this replica are active
//	upkeep.go      sweep dead sessions, adopt waiting runs
//	dependencies.go add runs of dependents
//	misfirepage.go find scheduled times that no replica started, a page of jobs at a time
//	misfire.go     decide on those by policy
//	explain.go     say why a firing ran or did not run
//
// A firing is a job and its scheduled time, which is the same on every replica. With jitter it
// starts later, by a hash of both. The gate is an `add` in memcached: the replica that adds the
// key goes on, and the others drop the firing. If the gate gives an error, the replica goes on
// too. The advisory locks are all or none, and cheap to poll. The start decides: the store
// checks for conflicts, and gives the run its claim.
//
// While a lock is held, a waiting firing holds nothing: it gives back its locks and its worker.
// It tries again as its wait policy says, at most until the next scheduled time of the job. Then
// it is recorded as skipped, with the resource and its holder. A firing that waits for more than
// a second is recorded as waiting. Younger firings that conflict with it wait behind it during
// its reservation (locking.Reserve), but not while it waits for a worker. A triggered run waits
// as long as its trigger says, and runs of a job begin in the order of their triggers.
//
// A replica has a list of the runs that its firings handle. A run is added to it before the
// store has a row of the run. If the store has a run of this replica that is not on the list,
// because a reply was lost for example, the replica handles it again.
//
// # Sessions
//
// A replica trusts its session until one TTL after it sent the last confirmed heartbeat, by the
// monotonic clock of the machine. If the session is not confirmed in time, the context of every
// run ends with [ErrSessionLost], and nothing starts until a new session is open. An expired
// session is never renewed. By then the sweep of another replica may have recorded the runs as
// lost and granted their resources. Later writes of these runs through a fence do not commit.
//
// # Active definitions
//
// Every replica registers its cron table with each session. When the store first sees a
// definition, it gives it the next version of the job, and the definition keeps that version.
// The active definition is the newest version that a live session has. A replica with another
// definition does not start, adopt or misfire-check the job, and the store refuses its starts.
// So the first new replica of a deploy takes a job over, and an old replica that restarts does
// not take it back. The older definition becomes active again when the last session with the
// newer one has ended, or has expired and been swept. A replica learns this by its next
// heartbeat, and goes on with the first scheduled time that it had left to others.
//
// When a replica reloads its configuration ([Scheduler.SetJobs]), it withdraws the definitions
// that it no longer has from its session, and registers the new ones.
//
// # Guarantees
//
// Each firing starts at most once, unless its job asks for recovery, three times at most, or for
// further attempts. No two runs with conflicting requests hold claims at the same time. While a
// replica that has the job is alive, each scheduled time ends as a run, or as a record with the
// reason why there was none. For effects outside of the database of the store, handlers must
// pass on [Run].Token.
//
// # State, results and events
//
// A handler may save state for the next run of its job, and set a result ([Run].Save,
// [Run].SetResult). The statement that ends the run writes both, so a superseded run stores
// nothing. The webhooks of a job are part of its definition. The store records their deliveries
// with the end of the run ([Outbox]), and package jobs/webhook sends them. A [Listener] gets
// events of this replica, and may lose some.
//
// # Stores
//
// [Store] is the contract of a store, and package jobstest checks it. The stores are
// jobs/postgres, for clusters, and jobs/sqlite, for one process.
package jobs
