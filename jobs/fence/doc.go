// Package fence fences the transactions of runs in a database that is not the store.
//
// The store decides which run may write: it gives the run a claim with a token. Of two runs that
// conflict, the later one has the larger token. Another database cannot read claims. So tables in
// that database keep, for each resource, the largest token of the runs that locked it. A
// conflicting run with a smaller token is refused:
//
//	tx, err := pool.Begin(ctx)
//	…
//	defer tx.Rollback(ctx)
//	if err := fence.InTx(ctx, run, fence.Pgx(tx)); err != nil {
//		return err // with ErrCommitted the run succeeds
//	}
//	… statements of the job …
//	return tx.Commit(ctx)
//
// [ErrCommitted] says that an earlier attempt has done the work. The attempt of a handler that
// returns it counts as succeeded.
//
// [Do] and [DoSQL] do all of this, and find out what happened when the reply to the commit is lost.
//
// # Tables
//
// [Install] creates the schema holdfast_fence with three tables, and [Dialect.SQL] returns its
// statements. The rows of several clusters never meet: each begins with the id of its cluster.
//
//   - tokens has a row for each name, which is the key of a resource. Runs lock this row. It has
//     the largest token of a run that locked the name exclusively.
//   - readers has a row for each name and token of a run that locked the name shared. It is a table
//     of its own, because readers must not wait for each other.
//   - commits has a row for each committed transaction of [InTx].
//
// # The pass
//
// A name is above another name if it covers it: the name of a schema is above the names of its
// tables. The first statements of a transaction are one pass over the names that the run locks and
// the names above them, in byte order:
//
//   - A name that the run locks exclusively: its row is locked for update.
//   - A name that the run locks shared, and each name above a name that it locks: the row is locked
//     for share.
//   - A name that the run locks shared and that may have names beneath it, such as a schema: the
//     rows of all names beneath are locked for share too.
//
// So two transactions of conflicting runs lock one row in conflicting modes, and the second one
// waits for the end of the first. Readers do not wait for each other.
//
// A row that is missing is inserted. A reader of a schema may already have locked the rows beneath
// the schema. Its locks do not include the new row. So each name with names beneath has a second
// row in tokens (part = 1). A reader of a schema locks the second row of the schema for share. A
// transaction that inserts a name first locks the second row of each name above for update, so it
// waits for these readers. Rows of tokens are never deleted, so each name is inserted only once.
//
// Do and DoSQL insert missing rows in a short transaction of their own. Then they begin the
// transaction of the job, which finds the rows. So the first uses of two names do not wait for each
// other's jobs. With InTx and Check, the transaction of the job inserts the rows. Until it ends,
// the first uses of other names of the same schema wait for it.
//
// When all rows are locked, the pass reads the tokens. The run is superseded
// ([storage.ErrSuperseded]) if a larger token is on
//
//   - a name that it locks exclusively, or a name above or beneath this name, whoever set the
//     token;
//   - a name that it locks shared, or a name above or beneath this name. Here, only the tokens of
//     exclusive locks count.
//
// Then the pass raises the tokens of its own names. A run that locks a name exclusively deletes the
// rows of older readers of that name. Tokens on rows are never lowered.
//
// Resources with slots are not fenced, because several runs with different tokens may hold them.
//
// # Commits
//
// The pass ends with a row in commits, in the same transaction. Its key is a hash of the cluster,
// the job, the scheduled time, the key of the trigger, the actor who chose that key, and the step.
// So all attempts and recoveries of one firing have the same key. If the row is there, the work was
// committed, and InTx returns [ErrCommitted]. Each call tries to insert the row with a random value
// of its own, and then reads the row. If the row has another value, it was there before.
//
// The attempt remembers the values of its own calls. If the row has one of them, the handler has
// committed another transaction of the same step in this attempt. The work of the second
// transaction is not done, so InTx returns [ErrStepRepeated] and the attempt fails.
//
// Some statements end a transaction before its time: in MariaDB and MySQL a CREATE TABLE commits
// it, and a deadlock rolls all of it back. The statements after that are not fenced. So Do and
// DoSQL set a savepoint after the pass, and release it after the work of the job. If the server
// does not know the savepoint any more, they return [ErrEnded]. They also insert the row with
// done = 0, and their last statement sets it to 1. A later attempt that finds 0 returns
// [ErrPartial].
//
// If the reply to a commit is lost, a new transaction makes the same pass. The pass waits for the
// transaction whose fate is unknown, because that transaction holds the rows. Then the row in
// commits answers the question. This works also if the commit reaches the server late.
//
// [Prune] deletes rows of commits that are older than its parameter keep, which must be longer than
// the retention of the history. Of the rows of readers for a name, it keeps only the one with the
// largest token.
//
// # Isolation
//
// PostgreSQL: read committed only. Otherwise the pass returns [ErrIsolation]. In repeatable read,
// the snapshot would be older than the locks, and the job would not see what an earlier run
// committed while the pass waited.
//
// MariaDB and MySQL: all statements of the pass are locking reads or writes. These read the latest
// commit at every level and make no snapshot. At repeatable read, which is the default, the first
// query of the job makes the snapshot. The pass has locked all rows by then, so the snapshot
// contains what earlier conflicting runs committed. The transaction must not begin with a query of
// its own, or WITH CONSISTENT SNAPSHOT. At repeatable read, InnoDB locks gaps between rows too. So
// a reader of a schema and a reader of a table beneath it wait for each other there, and there are
// more deadlocks while names are new. Do and DoSQL use read committed.
//
// Redshift has no row locks: LOCK on the table tokens is the first statement. So the transactions
// of all jobs in that database run one after the other.
//
// # Limits
//
// A fenced transaction of a newer run waits for the open transaction of an older run, so commits on
// one name are in the order of the tokens. But the database does not know the token of the newer
// run before the first fenced transaction of that run. Until then the older run can still commit,
// even if its claim is gone. If that first transaction rolls back, the older run can still commit
// after it. docs/guarantees.md compares this with the fence of the store.
//
// A replica that is frozen inside a transaction holds its rows. [IdleLimit] bounds this: the server
// ends a transaction that waits longer for its client.
//
// A run has one open fenced transaction at a time. A second one waits for the first.
//
// A deadlock is possible when names are new, and ends one of the transactions. Do and DoSQL then
// begin again: nothing of the job has been executed.
package fence
