// Package postgres stores sessions, firings and the history in PostgreSQL 13 or later. It decides
// there which runs start and commit.
//
// # Claims
//
// A claim is one row with the token of the run. A run may commit while its claim exists. Start
// inserts the claim with its grants. Finish, sweep and revoke delete it. A transaction of a job
// begins with
//
//	SELECT FROM claims WHERE token = $1 AND run = $2 FOR SHARE
//
// So a deletion waits for the transaction, or the transaction sees the deletion and rolls back.
//
// All transactions are READ COMMITTED: each statement sees what was committed before it began. At
// another isolation level, Open and each batch return an error. All times are clock_timestamp() of
// PostgreSQL, so no clock of a replica decides anything.
//
// # Fences
//
// The table fences orders two starts that want related resources. It has one row for each resource.
// (Package fence has other tables, in other databases.) A start works in two steps:
//
//  1. It locks the rows of the resources that it wants FOR NO KEY UPDATE. It locks the rows of the
//     resources above them, such as the schema of a table, FOR SHARE.
//  2. A later statement looks for conflicting grants. So the second start sees the grants of the
//     first one.
//
// Each fence has a floor: no claim on the resource has a smaller token. A start reads only grants
// whose tokens are at least the floor. Tokens only grow, so a start of new firings may read the
// floors when it locks the fences, before it reads the grants. The floor rises once in a thousand
// tokens, so that the table does not bloat.
//
// A sweep deletes a fence one hour after it was added, unless a transaction has locked it. If a
// fence is missing, a start cannot lock it. It then begins again and adds the fence. To prevent
// this, a start first adds missing fences, but only those that its replica does not know, and only
// if they are few. A replica knows a fence for at most 25 minutes after a start has found that it
// is younger than 30 minutes (knownfences.go). If a fence was missing, the replica forgets all
// fences, and the repeated start looks for all of its fences. For the next 10 s, the starts of the
// replica look for all fences that it does not know, even if these are many.
//
// # Starts
//
// Most firings are new, and nothing refuses them. One statement (startNew) inserts such a run as
// running, with its claim and grants. It leaves a request undecided if a grant, or the request of a
// waiter (table wants), might refuse it. The caller then sends the request again. Such requests
// take several statements, which insert the run as waiting and then update it to running.
//
// If two replicas insert runs of one firing at the same time, startNew fails with a unique
// violation. The start is then sent again with a statement that leaves out the firing
// (startNewBeside).
//
// A start is one implicit transaction, sent in one round trip. If the replica freezes afterwards,
// PostgreSQL still commits the transaction and releases its locks. A failed start leaves nothing
// behind.
//
// # Skips
//
// If a skipped firing has no run yet, one statement (recordNew) inserts a run that has ended. So
// the skip costs one insert. If the firing has a run, recordNew leaves it out. The skip is then
// written by the statements for all other notes ([storage.Note]), which insert a missing run as
// waiting, and update it.
//
// A firing that waits has no row for about the first second. If its replica dies in this time, the
// misfire check finds no run of the scheduled time, and records a misfire. If the replica and the
// misfire check both record the firing, the unique key of the firing keeps the first record.
//
// # Order of locks
//
// All transactions lock in one order: keys of actions, backfills, sessions, new fences, waiting
// runs, fences, claims, runs. Each kind is locked in the byte order of its keys. An insert counts
// as a lock on the run, because two starts that insert runs of one firing wait for each other.
// A finish locks claims by deleting them, and writes no run before it has deleted all of them.
//
// A start holds its session FOR KEY SHARE until it commits. A session is ended only under FOR
// UPDATE. So an ended session has no start under way, and another replica can adopt its waiting
// runs.
//
// A session that is stopping ([storage.ReplicaStatus]) or draining may still have starts under way.
// An adoption locks it FOR UPDATE before it takes its waiting runs, and skips it while a start is
// under way. A later start finds that the run belongs to another session.
//
// A finish that leaves its run waiting keeps the run for its session, except if the claim is given
// back because the handler was not called. The statement that deletes the claim then removes the
// session from the run and adds a wait without one. So no session can start the run while the claim
// exists, and the previous session must adopt it before it can start it again.
//
// # Active definitions
//
// The active definitions follow from the definitions of the sessions (table session_jobs). Both
// change in one transaction, which first takes an advisory lock of PostgreSQL, not one in
// memcached. Such a transaction registers or withdraws definitions of a live session, or removes
// those of an ended one. If it does not remove all definitions of an ended session, the next sweep
// does.
//
// A registration takes this lock shared, and then the lock of one half of all jobs (halfOf). So two
// connections of a replica register the two halves of its jobs at the same time. All others take
// the first lock exclusively, so they never run beside a registration.
//
// Two kinds of transactions lock rows of the table jobs, in the order of their names: those with
// this advisory lock, and misfire checks. Starts read the rows without locking.
//
// # Sessions
//
// A heartbeat renews a session only if it has neither ended nor expired. Heartbeats have
// connections of their own (heartbeats.go). If PostgreSQL has received only a part of a start, the
// transaction keeps the row of its session locked. No timeout of PostgreSQL ends this transaction
// while its connection lasts. So replicas end backends, the server processes of connections:
//
//   - A sweep ends the backend of such a start, a few seconds after its session has expired.
//   - A sweep ends a transaction that holds the claim of a dead session.
//   - A finish ends a transaction that an abandoned handler has left open.
//
// For that, a replica opens a connection besides its pools, because another connection of it waits
// for the row meanwhile, and for a second at most.
//
// # Disconnected sessions
//
// The backend of a heartbeat connection ends as soon as the operating system closes the connections
// of a killed process. The row of a session has the process ID of this backend. About every second,
// replicas search for live sessions without their backend (disconnected.go). A replica expires a
// session if a second search, at least 0.9 s after the first, finds the same backend missing and
// the session not renewed. This only makes an expiry earlier:
//
//   - A session expires only if its renewed_at and its backend are still those that the second
//     search found. So a heartbeat between this search and the expiry keeps the session.
//   - A live process notices when its connection ends. It opens another one at once, and records
//     the new backend.
//   - While a search uses the connection, a heartbeat goes over another one. The session keeps its
//     backend if the server of the heartbeat has it.
//   - A search runs on the heartbeat connection of its replica, and considers only backends that
//     existed during the lifetime of this connection. So the first replica after a restart of
//     PostgreSQL does not take the others for dead.
//   - Behind a pooler, sessions have no backend. A frozen process keeps its connection. Searches
//     find neither, so these sessions expire only after their TTL without a heartbeat.
//   - Only the three oldest replicas that are not stopping search, until their sessions expire.
//
// # Actions of operators
//
// Each action ([storage.Control]) is one transaction with its entry in the audit log. It first
// takes an advisory lock of PostgreSQL on its key. So a second action with the key sees the result
// of the first one. An action that adds, changes or removes a job then takes such a lock on all
// added jobs. Each action locks the row of the table meta last, in the round trip that commits.
//
// Concurrent triggers of one [Store] share a transaction of one round trip (triggerRuns). This
// transaction only inserts rows. It inserts runs in the byte order of job, key and actor. It leaves
// out a trigger that it cannot accept, and fails as a whole if it waits too long for a key. Each of
// these triggers is then an action of its own, which may wait for the key.
//
// A trigger can name a session that adopts its run (Adopter). The statement that inserts the run
// assigns it to this session, if the session is live and neither draining nor stopping. It does not
// lock the session. If the session ends, stops or is drained before the commit, an adoption finds
// the run: it also takes the waiting runs of stopping sessions, and those of draining sessions that
// have not started. Other replicas are not notified of such a run.
//
// A start checks each firing for a pause or a drain once, in the statement that inserts or locks
// it. A removed job has a negative version, which is active on no replica. Replicas are notified on
// a channel. No guarantee depends on that.
//
// A seal adds the link of an audit entry after the action, so actions do not wait for each other.
// It computes the hashes without a lock. Then one statement adds the links, if the head has not
// changed. Pruning locks the chain first.
//
// # Backfills
//
// A step of a backfill first locks the row of the backfill. So only one of several concurrent steps
// adds runs. Runs of backfills are behind all other waiters.
//
// # Tallies
//
// The transaction that ends a run inserts a row into tally_changes, so that finishes do not wait
// for each other. A sweep moves these rows to the tallies. A query adds up both.
//
// # Locks of programs
//
// [Store.Grants] decides on locks of programs without a scheduler. Such a lock is a claim without a
// run. The method Grant follows the rules of a start, and also these:
//
//   - Grant looks for conflicts before it locks fences, and again afterwards. A request that the
//     first look refuses locks no fence.
//   - At its end, Grant checks the session. If the session is no longer alive, the whole call
//     fails.
//   - Grant locks the rows of the waiting locks that it decides on. So a withdrawal of such a lock
//     happens before or after the call.
//   - A waiting lock ends with its session.
//
// # Shared transactions
//
// The statements of several runs can share a transaction ([storage.Script], sharer.go,
// sharedtx.go). A shared transaction follows the rules of a transaction of one run:
//
//   - Its fence check locks the claims of all its runs. It waits for no claim. If a claim is gone
//     or locked, its run leaves the shared transaction.
//   - Its last statement ends all runs whose statements were executed. If it cannot end one of
//     them, it fails, and PostgreSQL does not execute the COMMIT that follows.
//   - If a statement of a run fails or exceeds a limit, the transaction rolls back. The other runs
//     begin another one. The run that left executes its statements in a transaction of its own,
//     where its errors and its waits are those of any other run.
//   - If deferred constraints fail, or the connection breaks, all runs leave.
//   - If the reply to the commit is lost, each run finds out whether it was committed, as after a
//     transaction of its own. If not, the run executes its statements again.
//   - Statements and deferred triggers wait for a lock for 20 ms, which is less than the default of
//     deadlock_timeout. So no other transaction becomes the victim of a deadlock with a shared one.
//
// # Round trips
//
// A transaction of a job is two batches around its own statements: BEGIN with the fence check, and
// the finish with COMMIT. A statement of the job may end the transaction, which releases the lock
// on the claim. If the claim is gone when the second batch runs, the finish fails.
//
// # Guarantees
//
// The guarantees hold for writes through fenced transactions ([InTx], [Store.RunStatements],
// [Store.InLock], [Fence]) in this database:
//
//   - While a run has its claim, no run that conflicts with it can commit.
//   - A superseded run commits nothing more.
//
// Both hold whatever happens to memcached or to a replica. They do not hold after a failover of
// PostgreSQL that loses commits.
package postgres
