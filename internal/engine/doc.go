// Package engine fires jobs: once in the cluster for each scheduled time, on one replica. Each run
// has locks on the resources that the job names.
//
// # One firing
//
// The files follow a firing from its tick to its release:
//
//	timetable.go      the next scheduled time of every job, and delayed starts
//	sequence.go       the part of the timetable that is added in the order of time
//	cohort.go         the jobs of a schedule, whose firings a replica leaves to others together
//	ranking.go        which live replica tries a firing first, and when the others try it
//	subset.go         which replicas share the quick firings of a period
//	dispatcher.go     tick: move due firings to the ready queue, give them to free workers
//	lookout.go        drop firings that the replicas before this one have begun
//	burst.go          the same for many firings that start together, with one look
//	progress.go       leave late firings to the replicas that are about to begin them
//	ready.go          the queue of ready firings, in an order that differs by replica
//	prefilter.go      drop queued firings that other replicas have begun
//	firing.go         all steps of one firing, in their order
//	firstturn.go      the oldest firing of a job tries first
//	firsttry.go       gate, and the first try to lock: for firings that begin together
//	gate.go           the names of gates
//	lock.go           lock and release: the advisory locks
//	overlap.go        skip a firing whose job has another run
//	start.go          start: request the claim from the store
//	refusal.go        why a lock or a start was refused
//	waitpolicy.go     how long a firing waits, and for what
//	position.go       the order of the firings that wait for the same resource
//	waiting.go        wait without a worker: for the next try, a worker or an operator
//	handover.go       wake the first waiter for a resource that a run has released
//	heldlocks.go      look at the advisory locks of all waiters with one request
//	note.go           record a firing as waiting, skipped or failed
//	attempt.go        run: call the handler under the claim
//	finish.go         finish: record the end of the attempt
//
// Beside the path of a firing:
//
//	assembly.go       make a replica of all parts
//	configured.go     the jobs of the configuration
//	heap.go           the heap of the timetable and of the queue
//	worker.go         workers; the worker of one firing
//	quickness.go      which jobs are quick, so that their firings may begin without a worker
//	meantime.go       the mean of recent times
//	slots.go          limits on the firings of a group and on late runs
//	deadline.go       the time by which a firing must begin
//	events.go         the events of firings, and eventbus.go, which delivers them
//	spans.go          the spans of a run's trace
//	batcher.go        batches of calls to the store
//	paces.go          how long firings and calls gather before they share requests
//	session.go        one heartbeat renews the replica's session and all its claims
//	activation.go     which jobs this replica fires: those whose active definition it has
//	controlstate.go   obey pauses, drains and cancellations
//	addedjobs.go      fire the jobs that operators added at run time
//	trigger.go        add runs of triggers, and adopt them at once
//	upkeep.go         the work for the cluster that any replica does:
//	turns.go          which replicas do it in an interval
//	sweep.go          end expired sessions
//	adoption.go       take over waiting runs
//	dependencies.go   start dependents when their dependencies have succeeded
//	backfills.go      add the runs of backfills
//	misfirepage.go    look for scheduled times that no replica started, page by page
//	misfire.go        apply the misfire policy to them
//	drift.go          compare the configurations of live replicas
//	heartbeatlog.go   remember the heartbeats of all replicas
//	retention.go      delete old history
//	sealing.go        seal the audit log
//
// A firing is the pair of a job and its scheduled time, which is the same on every replica. If the
// job has jitter, the firing starts later. The delay is computed from a hash of the pair, so it is
// also the same on every replica.
//
// One replica tries a firing at once: the first replica by the rendezvous hash of the firing and
// the live sessions. The next two leave the firing to it for 40 and 80 ms. Then they look at the
// gates of many firings with one request, and queue only the firings that no replica has begun. All
// other replicas look 250 ms to 3 s later, together at all firings that start at the same time. If
// one of the first three replicas knows that all of these firings are begun, it leaves a mark after
// 200 ms, and the others read only this mark. If there is none, one of them looks at the gates, and
// leaves the mark for the others.
//
// Ranks are a hint. Replicas compare their sessions every few seconds, so two replicas may both be
// first, or none. If the first replica is dead, frozen, drained or has no free worker, the next one
// starts the firing. A replica that does not know the live sessions tries all firings at once. If
// memcached does not answer, a look asks the store which firings have a run. A replica queues no
// firing without an answer.
//
// All live replicas share the firings of jobs that are not quick. A subset of them shares the
// firings of quick jobs: at least three replicas, and more if these firings take longer together.
// So each transaction starts many firings, however many replicas there are. Each period of a minute
// has a subset of its own. Replicas may measure different times for a handler. If a replica's sum
// of them is near the limit of a size, it ranks itself in the subsets of this and of the next
// larger size, and takes the lower rank. A replica that is not in the subset leaves all firings of
// jobs with the same schedule to the others with one step, and looks at the jobs only if the burst
// has no mark. If nothing else is due before, it takes this step when it reads the mark, so that it
// wakes once for a burst.
//
// If the subset is late but begins its firings, other replicas would only delay it. So a replica of
// the subset leaves a progress mark in each second while it expects to begin its firings in time.
// As long as there are such marks, other replicas leave the firings of the burst to it, for a
// quarter of the misfire threshold at most, or of the deadline if that is shorter.
//
// A replica that is not alone takes due firings from its timetable every 50 ms at most, so that
// firings which are due one after the other share their requests like those of one time. After a
// pause of 50 ms, the first is taken when it is due.
//
// A firing takes a worker before its gate. A scheduled firing of a quick job takes it later: when
// its handler is to be called. So all firings of a burst can share their requests and one
// transaction, although there are fewer workers. A job that has not run on this replica counts as
// quick while the first calls of other jobs are quick. One worker is reserved for every ten firings
// that have begun early, so they do not wait for slow handlers. Such a firing may get no worker
// within a second after its start, because the handlers of early firings have become slow. Then it
// gives its claim and its locks back. Its run waits as if it had not started, and any replica may
// adopt it, usually one with a free worker.
//
// The gate is an `add` in memcached. It tells all replicas but one, at low cost, that another
// replica has the firing. Only a clear refusal ends a firing there. The advisory locks come next:
// all or nothing, and cheap to poll. Then the store decides on the start and grants a claim. The
// claim gives the run its right to commit.
//
// Firings that begin without a worker begin together, up to 256 of them. The replica adds all their
// gates with one request to each server of memcached, and then all their advisory locks. After
// that, each firing goes on alone. If a firing is refused by another one of them, it waits until
// the locks of all have been tried. If a server does not answer, all these firings wait for its
// timeout. Then the replica does not ask this server for two seconds.
//
// While a resource is held, a waiting firing holds nothing itself. It gives back its locks and its
// worker, waits by the job's policy and tries again, at most until the job's next scheduled time.
// Then it is recorded as skipped, with the resource and its holder.
//
// The waiting firings of a replica share their looks at the advisory locks that block them. The
// replica reads all these locks with one request, every 20 to 100 ms, by how long each has been
// held. When a look shows that a lock is free, or a run of this replica has released it, the first
// waiting firing tries at once. If this firing needs another lock besides, and does not get it, the
// next firing tries. If the store refuses a firing because an older one on any replica waits for
// the same resource, the firings behind it leave the advisory lock to the older one for 100 ms.
//
// A firing rests while its replica looks at its lock: a try would find nothing new. The firing
// sleeps until its wait ends or must be recorded, at most for a second. If it is woken earlier, it
// counts the tries that its policy planned for the time of the rest.
//
// A firing that waits for more than a second is recorded as waiting. Younger firings that want the
// same resource queue behind it for as long as its position is reserved (locking.Reserve). Its
// position is not reserved while it waits for a worker, because that wait has no known end. A
// triggered run waits for as long as its trigger allows. A run of the same job that is triggered
// later never begins before it, unless the runs of the job may overlap.
//
// The replica that accepts a trigger adopts its run in the transaction that adds the run, if it has
// a free worker for it. Otherwise any replica adopts the run.
//
// A run of a backfill waits behind all other waiters, and none waits behind it. While it runs, a
// scheduled firing of its job waits for its end, whatever the overlap policy is.
//
// A replica begins to track a run of its firings before the store has a row for it. If the store
// returns a run of this replica that no firing tracks, the replica resumes it: a reply was lost, or
// a note was refused.
//
// # Sessions
//
// A replica trusts its session until one TTL (session.expires) after it sent the last confirmed
// heartbeat, by this machine's monotonic clock. If the store does not confirm the session in time,
// the context of every run ends with [storage.ErrSessionLost], and nothing starts until a new
// session is open. A session never revives. The sweep of another replica may already have recorded
// the runs as lost and granted their resources. Fenced transactions of these runs do not commit.
//
// A replica that stops says so in a heartbeat. Its session stays open until its last run has ended.
// Meanwhile other replicas adopt its waiting runs: firings that wait for a lock, runs between two
// attempts, and adopted runs without a worker.
//
// # The active definition of a job
//
// Every replica registers its cron table with each session that it opens. The store gives a new
// definition the next version number of its job. The version of a definition never changes. The
// active definition is the newest version that a live session has. A replica with another
// definition does not fire the job: it starts nothing of it (the store refuses the start), adopts
// nothing of it, and records no misfires of it.
//
// So the first new replica of a deploy takes a job over, and an old replica that restarts does not
// take it back. When the last session with the newer definition has ended, or has expired and was
// swept, the older one is active again. A replica learns this with its next heartbeat. It continues
// with the first scheduled time that it left out while another definition was active, because the
// other replicas may not have started it.
//
// [Scheduler.SetJobs] reloads the configuration of a replica. The replica withdraws removed
// definitions from its session and registers new ones. The effect is that of a deploy, but the
// session goes on.
//
// # Guarantees
//
// The handler of a firing is called at most once, unless its job asks for further attempts, or for
// recovery. A firing is recovered at most three times. No two runs with conflicting requests hold
// claims at the same time. Each scheduled time that passes while the cluster is up ends as a run,
// or as a record with the reason why there was no run. Effects of handlers outside the store's
// database are not fenced. Handlers can fence them with [jobs.Run].Token.
package engine
