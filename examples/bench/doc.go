// Program bench measures a cluster at a steady load. The cluster is three replica processes,
// PostgreSQL and memcached, all on this machine. Its J jobs are due every second. Each job inserts
// one row into a table of its own through the built-in sql handler.
//
// For each load it starts new replicas on a new database, lets them warm up,
// and measures for some seconds:
//
//   - how many firings ran once, more often, or never. The program counts the runs of a firing by
//     the rows that they committed, and not by the history. A sql job inserts its row in the
//     transaction that records its run as succeeded. So row and run have the same transaction
//     number, and each row belongs to exactly one firing. The program also counts rows without a
//     run, and runs that are recorded as succeeded without their row;
//   - how late firings started and ended, by PostgreSQL's clock;
//   - what that cost: processor time of the replicas, of PostgreSQL and of
//     memcached, transactions, write-ahead log, memory. The cost of a run is the total divided by
//     the runs that ended in the measured seconds.
//
// A firing that has not ended some seconds after the last measured second
// counts as never run.
//
// The program fails if a firing ran twice, or if the tables and the history differ. It does not
// fail if a firing was late or never ran.
//
// -share permits the inserts of concurrent runs to share transactions. The report then counts fewer
// transactions.
//
// -no-op runs a Go handler that does nothing. The figures of other schedulers in the report were
// measured with such a handler. The program counts its firings by the history alone.
//
// -tables has the jobs contend for so many tables, each of which a run holds for -hold. The report
// then says for which part of the time the tables were held.
//
// -spread gives the jobs a jitter, so that the firings of a second do not come at once. The report
// counts the jitter as a delay.
//
// -river measures River too, at the same loads and in the same run. River has no
// locks on tables. Its nodes are processes of the program in the folder river,
// which is a module of its own (make bench-river).
//
// -processes divides the replicas among fewer processes. The figures then include the work of all
// replicas, but the overhead of fewer Go processes.
//
// -bare measures no load. It starts as many processes as -replicas says. Each of them only renews
// a row every 5 s, reads a key of memcached each second, and listens for notifications. What they
// use is the least that replicas without firings can use. The system counts processor time in
// units of 10 ms for each process. So the figure of PostgreSQL is 0 if -seconds is short: a
// backend of such a process uses about 10 ms in two minutes.
//
// -profile and -statements say where the time goes: the first writes a
// processor profile of each replica, the second prints PostgreSQL's most
// expensive statements.
package main
