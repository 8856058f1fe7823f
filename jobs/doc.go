// Package jobs fires jobs: once in the cluster for each scheduled time, on one replica,
// with the resources that the job names locked.
//
// # One firing
//
// The files follow a firing from its tick to its release:
//
//	timetable.go   a heap of every job's next scheduled time, and of scheduled times that jitter delays
//	dispatcher.go  tick: what is due becomes ready; a free worker takes the first ready firing
//	ready.go       the queue between, in an order of each replica's own
//	firing.go      gate, lock, start; wait and try again while something is held; skip in the end
//	perform.go     run the handler under its claim, record how it ended, release
//	trail.go       where a run is traced, what it did becomes spans
//	engine.go      what firings share; what many ask of the store at one moment goes in one call
//	session.go     keep: one heartbeat renews a replica's session and with it all its claims
//	dependent.go    which jobs are this replica's to fire: those of which its definition is active
//	upkeep.go      sweep dead sessions, adopt waiting runs
//	follow.go      make jobs due that follow others
//	misfirepage.go look for scheduled times that nobody started, a page of jobs at a time
//	misfire.go     what becomes of those
//	explain.go     say what became of a firing, and why
//
// A firing is the pair of a job and its scheduled time, the nominal instant that the
// schedule gives; it is the same on every replica. Where the job has jitter, it
// starts later by a hash of both. The gate is an `add` in
// memcached that tells all replicas but one, cheaply, that they are late; only
// a clear no ends a firing there. The locks are stage 1: advisory, all or
// nothing, cheap to poll. The start is stage 2: the store decides, and its
// claim is what a run acts under.
//
// While something is held a firing holds nothing itself: it gives its locks
// and its worker back, waits by the job's policy and tries again, at most
// until the job's next scheduled time. Then it is recorded as skipped, with the resource
// and its holder. Who waits for more than a second is recorded as waiting, and
// younger ones that want the same go behind it for as long as its place is
// reserved (locking.Reserve); but not while it waits for a worker, of which
// nobody knows how long it takes. A triggered run waits for as long as its
// trigger says, and none that is triggered later begins before it.
//
// A replica knows of each run that one of its firings cares for, from before
// the store has a row of it. What the store says is the replica's and no firing
// cares for is taken up again: a reply was lost, or a note was refused.
//
// # What a session is trusted for
//
// A replica's session is trusted from before the heartbeat was sent until its
// TTL later, on this machine's monotonic clock. When it is not confirmed in
// time, every run's context ends with [ErrSessionLost] and nothing starts until
// a new session is open. A session never revives. Another replica's sweep may
// by then have recorded the runs as lost and granted their resources; what
// the runs still try to write through a fence does not commit.
//
// # Which definition of a job counts
//
// Every replica registers its cron table with each session that it opens. A
// definition that the store has not seen before is drawn the job's next
// version, and keeps it. In force is the newest version that a living session
// carries; a replica with another leaves the job alone: it starts nothing of it
// (the store refuses that in the start itself), adopts nothing of it, and
// records no misfires of it. So a deploy takes a job over with its first new
// replica, an old replica that restarts meanwhile takes nothing back, and when
// the last session with the newer definition has ended, or has expired and been
// swept, the older one is active again. A replica learns so by its next
// heartbeat, and goes on with the first scheduled time that it had left to others.
//
// A replica whose configuration is reloaded ([Scheduler.SetJobs]) withdraws what it
// no longer has from its session, and registers what it has now: a deploy without
// the end of a session.
//
// # Guarantees
//
// Each firing is started at most once, unless its job asks for recovery, three
// times at most, or for further attempts. No two runs with conflicting requests
// hold claims at the same time. Each scheduled time that passes while the cluster is up
// ends as a run or as a record that says why there was none. What handlers do
// outside the store's database is theirs to fence, with [Run].Token.
//
// # What runs keep
//
// A handler may save a state for the job's next run, and give a result
// ([Run].Save, [Run].SetResult). Both are held until the run ends, and are
// written by the statement that ends it: a superseded run keeps nothing. Which
// webhooks are told of an end is part of a job's definition, and the store
// writes it down with the end itself ([Outbox]); package jobs/webhook tells
// them. What need not be certain, a [Listener] hears.
//
// # Stores
//
// [Store] is what a store must do; package jobstest checks it. Stores are
// jobs/postgres, for clusters, and jobs/sqlite, for one process.
package jobs
