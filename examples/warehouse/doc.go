// Program warehouse measures the problem that Holdfast was made for. Jobs roll up and prune the
// same tables of a warehouse, each in an order of its own. Their transactions end in deadlocks and
// serialization failures, and two roll-ups of the same events count them twice.
//
// It starts a PostgreSQL and a memcached of its own, and lets pgbench write. It runs the jobs of
// warehouse.yaml on three replica processes, twice: first without locks on the tables that the jobs
// name, and then with these locks. Each time it reads pg_stat_database.deadlocks and counts
// serialization failures before and after, and compares every total that the jobs wrote with a
// single pass over the data.
//
// # What makes the comparison exact
//
// pgbench inserts into pgbench_history without an order: a transaction that began early may commit
// late, so neither a time nor a serial number is a high-water mark. The program adds the column
// xact, whose default is the number of the inserting transaction. Rows below the xmin of a snapshot
// are final: no transaction adds another one. A roll-up adds the rows from its mark to that xmin
// and moves the mark to it, in one transaction that also records its run as succeeded.
//
// After pgbench has ended the schedule goes on until each roll-up has run once
// more on a snapshot that is younger than pgbench's last transaction. Then the
// replicas stop, and everything is counted.
//
// The jobs only read the tables that pgbench updates. Its transactions take their rows in one order
// (accounts, tellers, branches), so they have no deadlocks among themselves. So the program counts
// only deadlocks of the jobs.
package main
