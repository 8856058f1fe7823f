// Package clustertest tests clusters of real processes beside a real PostgreSQL and a real
// memcached, under faults. The processes run the stock binary or a binary with handlers of its own.
//
// # The ledger
//
// The binary with handlers is the test binary itself. A test starts it again with an environment
// variable. So it has the race detector whenever the tests have it. Its handler "ledger" writes to
// tables of the test's own database through fenced transactions:
//
//   - ledger gets a row when a run begins and one when it ends, each for every table that the job
//     names, with the run's token and clock_timestamp();
//   - gates makes a run wait, inside or outside a transaction, until the test inserts a row;
//   - outcomes gets, without a fence, the outcome of a run's last write, even if the fence refused
//     that write.
//
// The row for the end of a run commits together with the run's end in the history. So the ledger
// shows, independently of the history, which runs took effect and in which order. It also shows
// whether two of them used a table at the same time.
//
// Tests wait for events by polling the database or a replica. They fail when the cluster's context
// ends. No test sleeps for a fixed time instead.
//
// To kill a replica at a chosen step of a firing, a victim's proxies (killstep_test.go) look for
// the request to memcached or PostgreSQL that begins or ends the step.
//
// # Environment
//
// HOLDFAST_CLUSTER_SECONDS is how long, in seconds, a cluster runs in the test of its invariants
// and in the test that checks every scheduled time. The default is 20.
package clustertest
