// Program bench measures a cluster at a steady load: three replica processes,
// PostgreSQL and memcached, all on this machine, and J jobs that are due every
// second, each of which inserts one row into a table of its own through the
// built-in sql handler.
//
// For each load it starts new replicas on a new database, lets them warm up,
// and measures for some seconds:
//
//   - how many firings ran once, more often, or never. A firing's runs are
//     counted by what they committed and not by what the history says: a sql
//     job inserts its row in the transaction that records its run as
//     succeeded, so that row and run carry the same transaction number, and
//     each row belongs to exactly one firing. Rows without a run, and runs
//     that are recorded as succeeded without their row, are counted too;
//   - how late firings started and ended, by PostgreSQL's clock;
//   - what that cost: processor time of the replicas, of PostgreSQL and of
//     memcached, transactions, write-ahead log, memory.
//
// A firing that has not ended some seconds after the last measured second
// counts as never run.
//
// Any firing that ran twice, and any disagreement of tables and history, makes
// the program fail; one that was late or never ran does not.
//
// -no-op runs a Go handler that does nothing, which is what the figures of others
// were measured with; its firings are counted by the history alone.
//
// -river measures River too, at the same loads and in the same run. River has no
// locks on tables. Its nodes are processes of the program in the folder river,
// which is a module of its own (make bench-river).
//
// -profile and -statements say where the time goes: the first writes a
// processor profile of each replica, the second prints PostgreSQL's most
// expensive statements.
package main
