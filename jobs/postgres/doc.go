// Package postgres keeps sessions, firings and history in PostgreSQL 13 or
// later, and decides there who runs.
//
// # Protocol
//
// Everything happens at READ COMMITTED, where each statement sees what was
// committed before it began, and all times are PostgreSQL's
// clock_timestamp(): no replica's clock decides anything. Open refuses another
// isolation level, and each batch fails at one.
//
// A run may act while its claim, one row with the run's token, stands. Start
// inserts it together with its grants; whoever deletes it (finish, sweep,
// revoke) ends the run's right to commit. A transaction of a job begins with
//
//	SELECT FROM claims WHERE token = $1 AND run = $2 FOR SHARE
//
// so that a deletion waits for the transaction, or the transaction sees the
// deletion and rolls back.
//
// Two starts that want related resources meet at the fences: one row a
// resource. A start locks the names it wants FOR NO KEY UPDATE, whatever the
// mode, and their ancestors FOR SHARE, before it looks for conflicting grants in
// a later statement. So the one who looks second sees what the first has
// granted. A fence is updated once in a thousand tokens, and forgotten after an
// hour unless somebody is locking it; who finds one gone begins again.
//
// Each step of a start is a statement of its own, and all are sent in one
// round trip as one implicit transaction: a replica that is paused half way
// holds no lock that another needs.
//
// Everybody locks in one order: keys of actions, sessions, fences that are new,
// waiting runs, fences, claims, runs; within each, sorted by key in byte order. A Start
// holds its session FOR KEY SHARE until it commits, and a session is ended
// only under FOR UPDATE. So no start is under way for a session that has
// ended, and its waiting runs can be given to another.
//
// Which definition of a job is active follows from what sessions carry
// (session_jobs), and changes with it in one transaction under an advisory lock:
// a registration, or the settling of a session that has ended. The rows that an
// ended session carried are what says that it is still to be settled, so the
// next sweep does what an end could not. The lock is taken before any row of
// jobs; rows of jobs are locked by name, by those who hold it and by a misfire
// check, which holds them only while it writes and writes nothing by a
// definition that is active no longer. Starts read them without locking.
//
// A session is renewed only while it is neither ended nor expired; it never
// revives. Heartbeats have connections of their own (lines.go). A start that was
// received in part holds its session, and no timeout of PostgreSQL's ends it: the
// sweep ends the backend of a session that expired long enough ago (lockers.go).
// So it does with a transaction that holds the claim of a dead session, and a
// finish with one of a handler that was left behind.
//
// # Actions of operators
//
// Each action ([jobs.Control]) is a transaction of its own, with its line in the
// audit log. It takes an advisory lock on its key before all else, so that
// a second action with the key sees what the first has done; one that adds, changes or
// removes a job takes an advisory lock on all added jobs next, so that what it has
// checked of them holds until it commits; it locks rows in the
// order that everybody keeps, and the one row of meta last of all, in the round
// trip that commits. A start decides once whether what it is asked for is
// held back, by a pause or because its session drains: new firings where they
// are inserted, those that wait where their places are locked. A job that was
// removed keeps its version negative, which is active for nobody. Replicas
// are notified on a channel of the cluster's own; nothing rests on that.
//
// # Locks of programs
//
// [Store.Grants] gives programs that schedule nothing the same arbiter: a lock
// is a claim without a run, and by one rule (conflict.go) locks and runs
// exclude each other. All that is said of a start holds for a grant, and
// besides: it looks before it locks any fence, and those that it refuses lock
// none; it fails as a whole unless the session lives at its end; and it locks
// the places of its locks among the waiting, so that a withdrawal comes before
// it or after it. The place of a lock ends with its session: nobody adopts it.
//
// # Round trips and plans
//
// A job's transaction is two batches around its own statements: BEGIN with the
// fence check, and the finish with COMMIT and the reset of the session. The
// finish fails, and with it all that is sent behind it, when the claim is gone.
//
// The store's statements are look-ups by key and are planned as such, whatever
// PostgreSQL knew of the tables when it made the plan (see beginPipeline).
//
// # Guarantees
//
// For what jobs and programs write through fenced transactions ([InTx],
// [Store.RunStatements], [Store.InLock], [Fence]) in this database: no two runs with conflicting
// grants overlap in what they commit, and a superseded run commits nothing
// more, whatever happens to memcached or to a replica. A failover of
// PostgreSQL that loses commits is outside the promise.
package postgres
