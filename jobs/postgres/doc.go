// Package postgres stores sessions, firings and the history in PostgreSQL 13 or later, and
// decides there which runs start and commit.
//
// # Protocol
//
// All transactions are READ COMMITTED: each statement sees what was committed before it began.
// All times are clock_timestamp() of PostgreSQL, so no clock of a replica decides anything. At
// another isolation level, Open returns an error, and so does each batch.
//
// A run may commit while its claim exists: one row with the token of the run. Start inserts it
// together with its grants. Its deletion (finish, sweep, revoke) ends the right of the run to
// commit. A transaction of a job begins with
//
//	SELECT FROM claims WHERE token = $1 AND run = $2 FOR SHARE
//
// so that a deletion waits for the transaction, or the transaction sees the deletion and rolls
// back.
//
// Two starts that want related resources are ordered by the table fences, which has one row for
// each resource. (Package fence has other tables, in other databases.) A start locks the names that
// it wants FOR NO KEY UPDATE, whatever the mode, and their ancestors FOR SHARE. A later statement
// looks for conflicting grants. So the second start sees the grants of the first. Each fence has a
// floor: no claim on the resource has a token smaller than the floor. So a start reads only grants
// whose tokens are at least the floor. The floor rises only once in a thousand tokens, so that the
// table does not bloat. A sweep deletes a fence one hour after it was added, unless it is locked.
// If a start finds that one of its fences is gone, it begins again.
//
// A start decides in two ways. Most firings are new, and nothing refuses them: one statement
// (startNew) inserts such a run as running, with its claim and grants. All other requests take
// several statements, which insert the run as waiting, and update it to running. If startNew leaves
// a new request undecided, the caller sends it again. So each start is one transaction, and a
// failed one leaves nothing behind.
//
// Each step of a start is a statement of its own. All are sent in one round trip as one implicit
// transaction. So if a replica is paused after it has sent them, PostgreSQL commits them and
// releases their locks.
//
// All transactions lock in one order: keys of actions, backfills, sessions, new fences, waiting
// runs, fences, claims, runs, each sorted by key in byte order. Two starts that insert runs of the
// same firing wait for each other, so an insert counts as a lock on the run. So a start inserts its
// runs only after it has locked the fences, which come earlier in this order. A Start holds its
// session FOR KEY SHARE until it commits, and a session is ended only under FOR UPDATE. So an ended
// session has no start under way, and another replica can adopt its waiting runs.
//
// The active definitions follow from the definitions that sessions have (session_jobs). Both change
// in one transaction under an advisory lock of PostgreSQL, not one in memcached. Such a transaction
// registers or withdraws definitions of a live session, or removes those of an ended session. If an
// ended session still has rows in session_jobs, the next sweep removes them. Each of these
// transactions takes the advisory lock before it locks rows of jobs. Rows of jobs are locked in the
// order of their names, by the holder of that lock and by a misfire check. A misfire check holds
// them only while it writes, and writes nothing for a definition that is no longer active. Starts
// read them without locking.
//
// A session is renewed only while it is neither ended nor expired. Heartbeats have connections of
// their own (heartbeats.go), which also show that a process exists (see "Disconnected sessions"). A
// start of which PostgreSQL has received only a part holds its session. While the connection lasts,
// no timeout of PostgreSQL ends this start. A few seconds after the session has expired, a sweep
// ends the PostgreSQL backend that executes this start (backends.go). A sweep also ends a
// transaction that holds the claim of a dead session. A finish ends a transaction that an abandoned
// handler has left open.
//
// # Disconnected sessions
//
// A session has one heartbeat connection, and its row has the process ID of the backend of this
// connection. The backend ends as soon as the operating system closes the connections of a killed
// process. A replica searches about every second for live sessions without their backend
// (disconnected.go). It expires a session if a second search, at least 0.7 s after the first, finds
// the same backend missing and the session not renewed. The sweep follows at once. This is a hint
// that only makes an expiry earlier:
//
//   - The statement that expires a session requires that renewed_at and backend are those that the
//     search found. So a heartbeat comes before it and keeps the session, or comes after it and
//     finds the session expired.
//   - A live process notices when its connection ends. It opens another one at once, and records
//     the new backend (sessionbackend.go).
//   - A search runs on the heartbeat connection of its replica, which a restart, a crash or a
//     failover of PostgreSQL ends. It considers only backends that existed during the lifetime of
//     this connection. It knows this in two cases: an earlier search on this connection found the
//     backend, or the other session was renewed after this connection had been opened. So the first
//     replica that is back does not take the others for dead.
//   - Behind a pooler, a session has no backend: the process ID that a pooler reports to its client
//     is not that of the backend. Such a session ends only by its expiry. So does the session of a
//     process whose connection stays open, because the process is frozen or cut off.
//   - Only the three oldest replicas search. If they die together, others search when the sessions
//     of these replicas have expired.
//
// # Actions of operators
//
// Each action ([storage.Control]) is a transaction of its own, with its entry in the audit log.
// First it takes an advisory lock of PostgreSQL on its key, so that a second action with the key
// sees the result of the first. An action that adds, changes or removes a job then takes such a
// lock on all added jobs. So what it checked about them stays true until it commits. It locks rows
// in the common order, and the row of meta last, in the round trip that commits. A start checks
// each firing once for a pause or a drain: a new firing in the statement that inserts it, and a
// waiting run in the statement that locks its row in waits (a table). A removed job has a negative
// version, which is active on no replica. Replicas are notified on a channel of the cluster, and no
// guarantee depends on that.
//
// An entry of the audit log gets its link in the hash chain after its action (auditchain.go), so
// actions do not wait for each other. A seal computes hashes without a lock, and one statement adds
// the links if the head is still the one that it has read. Pruning locks the chain first.
//
// # Backfills
//
// A step of a backfill locks its row first. Each later statement of the step sees what earlier
// steps have done. So of several steps that begin at the same cursor, only one adds runs. The table
// backfill_runs has the keys of its runs that have not ended or are not counted yet. The position
// of a waiter (in wants, another table) is a time. For a run of a backfill it is a hundred years
// later, so the run is behind all other waiters.
//
// # Tallies
//
// The transaction that ends a run counts it: it inserts rows into tally_changes, so that finishes
// do not wait for each other. A sweep moves these rows to the tallies. A query adds up both. Finish
// and Note count the ended runs of their batch in one statement. They set the column batched in the
// rows of these runs, so that the database triggers do not count them again. The triggers count all
// other runs. Webhook deliveries are added in the same two ways.
//
// # Locks of programs
//
// [Store.Grants] decides on locks of programs without a scheduler. A lock is a claim without a
// run, and one rule (conflict.go) decides on locks and runs. All rules of a start hold for a
// grant, and these:
//
//   - It looks for conflicts twice: before it locks any fence, and afterwards like a start. A
//     request that the first look refuses locks no fence.
//   - A grant fails as a whole unless the session is still alive when the grant ends.
//   - It locks the rows of its waiting locks, so that a withdrawal comes before or after it.
//   - A waiting lock ends with its session, and no replica adopts it.
//
// # Round trips and plans
//
// A transaction of a job is two batches around its own statements. The first is BEGIN with the
// fence check, and the second is the finish with COMMIT. On a pool of the store, the second batch
// also undoes changes that the job may have left in the connection. A statement of the job may have
// ended the transaction, and with it the lock on the claim. If the claim has been deleted since,
// the finish fails, and with it all later statements of the batch.
//
// The statements of the store are look-ups by key. They are planned as such, whatever statistics
// PostgreSQL had of the tables when it made the plan (see beginPipeline).
//
// # Guarantees
//
// The guarantees hold for writes through fenced transactions ([InTx], [Store.RunStatements],
// [Store.InLock], [Fence]) in this database. While a run has its claim, no run that conflicts with
// it can commit. A superseded run commits nothing more. Both hold whatever happens to memcached or
// to a replica. A failover of PostgreSQL that loses commits is outside of the guarantees.
package postgres
