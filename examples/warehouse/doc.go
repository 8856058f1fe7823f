// Program warehouse measures the problem that Holdfast was made for: jobs that
// roll up and prune the same tables of a warehouse, each in an order of its
// own, end in transaction cycles, and two roll-ups of the same events count
// them twice.
//
// It starts a PostgreSQL and a memcached of its own, lets pgbench write, and
// runs the jobs of warehouse.yaml on three replica processes, twice: without
// the tables that the jobs name, and with them. Each time it reads
// pg_stat_database.deadlocks and counts serialization failures before and
// after, and compares every total that the jobs wrote with a single pass over
// the data.
//
// # What makes the comparison exact
//
// pgbench inserts into pgbench_history without an order: a transaction that
// began early may commit late, so neither a time nor a serial number is a
// high-water mark. The table gets the column xact, the inserting transaction's
// number, by default; its rows below a snapshot's xmin are final, none will be
// added. A roll-up adds the rows from its mark to that xmin and moves the mark
// to it, in one transaction that also records its run as succeeded.
//
// After pgbench has ended the schedule goes on until each roll-up has run once
// more on a snapshot that is younger than pgbench's last transaction. Then the
// replicas stop, and everything is counted.
//
// The jobs only read the tables that pgbench updates. Its transactions take
// their rows in one order (accounts, tellers, branches), so they have no
// deadlocks among themselves: what is counted are the jobs' own.
package main
