// Package fence fences the transactions of runs in a database that is not the store.
//
// The store gives each run a claim with a token. Of two runs that conflict, the later one has the
// larger token. Another database cannot read claims. So tables in that database keep, for each
// resource, the largest token of the runs that locked it. The fence refuses a conflicting run with
// a smaller token.
//
// # Use
//
// [Do] and [DoSQL] run a function in a fenced transaction. They also find out what happened when
// the reply to the commit is lost. A program with its own transaction calls [InTx]:
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
// # Tables
//
// [Install] creates the schema holdfast_fence with three tables. In this documentation, a name is
// the key of a resource. Each row has the id of its cluster.
//
//   - tokens has a row for each name. The row has the largest token of a run that locked the name
//     exclusively. The name of a schema has a second row (see New names).
//   - readers has the tokens of the runs that locked a name in shared mode, one row for each name
//     and token. Such a run is a reader of the name.
//   - commits has a row for each committed transaction, except those of [Check] and [Transact].
//
// # The pass
//
// A name is above the names that it covers: a schema is above its tables, and the tables are
// beneath the schema. The first statements of a transaction are one pass over the names that the
// run locks, and the names above them, in byte order. The pass locks rows of tokens:
//
//   - It locks the row of a name for update if the run locks the name exclusively.
//   - It locks the row of a name for share if the run locks the name shared.
//   - It locks the row of each name above for share.
//   - For a schema that the run locks shared, it also locks the rows of all names beneath for
//     share.
//
// So two transactions of conflicting runs lock at least one row in conflicting modes, and the
// second one waits. Readers do not wait for each other. The sections New names and Isolation have
// the exceptions.
//
// When all rows are locked, the pass reads the tokens. The run is superseded
// ([storage.ErrSuperseded]) in each of these cases:
//
//   - It locks a name exclusively, and a larger token is on this name or a name above or beneath.
//   - It locks a name shared, and a larger token of an exclusive lock is on one of these names.
//
// Then the pass raises the tokens of its own names. A run that locks a name exclusively deletes the
// rows of older readers of that name. No row of tokens gets a smaller token. Resources with slots
// are not fenced, because several runs may hold them.
//
// # New names
//
// The pass inserts missing rows. A reader of a schema has locked the rows beneath that it found,
// but cannot lock a row that is inserted later. So a name above other names has a second row in
// tokens (part = 1). A reader of a schema locks the second row of the schema for share. A
// transaction that inserts a name locks the second rows of the names above for update, so it waits
// for these readers. Rows of tokens are never deleted.
//
// Do and DoSQL insert missing rows in a short transaction of their own, before that of the job.
// With InTx and Check, the transaction of the job inserts the rows. Until it ends, the first uses
// of other names of the same schema wait for it.
//
// # Commits
//
// The pass ends with a row in commits, in the same transaction. Its key is a hash of the cluster,
// the firing and the step. So all attempts and recoveries of one firing have the same key. Each
// call tries to insert the row with a random value of its own, and then reads the row. Another
// value in the row means one of two things:
//
//   - The value belongs to another call of this attempt. The handler has committed another
//     transaction of the same step, and InTx returns [ErrStepRepeated].
//   - An earlier attempt has committed the work. InTx returns [ErrCommitted].
//
// In MariaDB and MySQL, a CREATE TABLE commits the transaction, and a deadlock rolls all of it
// back. The statements after that are not fenced. So Do and DoSQL set a savepoint after the pass,
// and release it after the work of the job. If the savepoint is gone, they return [ErrEnded]. They
// also insert the row with done = 0, and their last statement sets it to 1. A later attempt that
// finds 0 returns [ErrPartial].
//
// Redshift has no savepoints. There, DoSQL notices a rollback by the function, because the row is
// gone. It does not notice COMMIT and TRUNCATE, which commit the transaction. So the function must
// not execute them.
//
// If the reply to a commit is lost, a new transaction makes the same pass. The pass waits for the
// old transaction, which holds the rows. Then the row in commits answers the question.
//
// # Isolation
//
// PostgreSQL: read committed only. Otherwise the pass returns [ErrIsolation]. In repeatable read,
// the job would not see what an earlier run committed while the pass waited.
//
// MariaDB and MySQL: the pass reads the latest commit at every level, and makes no snapshot. At
// repeatable read, the default, the first query of the job makes the snapshot, after the pass. So
// the transaction must not begin with a query of its own, or WITH CONSISTENT SNAPSHOT. At this
// level InnoDB also locks gaps between rows. So a reader of a schema and a reader of a table
// beneath it wait for each other, and new names cause more deadlocks. Do and DoSQL use read
// committed.
//
// Redshift: the first statement locks the table tokens, because there are no row locks. So the
// transactions of all jobs in that database run one after the other.
//
// # Limits
//
//   - The database learns the token of a newer run from its first fenced transaction. Until this
//     transaction commits, the older run can still commit, even if its claim is gone.
//     docs/guarantees.md compares this with the fence of the store.
//   - A replica that freezes inside a transaction holds its rows. [IdleLimit] is the limit for
//     this, where it applies.
//   - A run has one open fenced transaction at a time. A second one waits for the first.
//   - A deadlock is possible when names are new. It ends one of the transactions before the first
//     statement of the job. Do and DoSQL then begin a new transaction.
package fence
