// Package clustertest holds the tests of the whole: the stock binary, and one
// with handlers of its own, as processes beside a real PostgreSQL and a real
// memcached, with whatever may befall them.
//
// # How a test sees what happens
//
// The program with handlers is the test binary itself, started again with an
// environment variable set, so that it is built with the race detector whenever
// the tests are. Its handler "ledger" writes what it does into tables of the
// test's own database through fenced transactions:
//
//   - ledger gets a row when a run begins, one when it ends, each for every
//     table that the job names, with the run's token and clock_timestamp();
//   - gates lets a run wait, inside or outside of a transaction, until the test
//     adds a row;
//   - outcomes gets, without a fence, what became of a run's last write, also
//     where the fence refused it.
//
// The row that ends a run commits together with the run's end in the history.
// So the ledger says, independently of the history, which runs took effect, in
// which order, and whether two of them were on a table at the same time.
//
// Tests wait for events by asking the database or a replica until they are
// there, and fail when the cluster's context ends; none sleeps and hopes.
//
// To kill a replica at a chosen step of a firing, a victim's proxies (killstep_test.go) look for
// the request to memcached or PostgreSQL that begins or ends the step.
//
// # Environment
//
// HOLDFAST_CLUSTER_SECONDS is how long the cluster runs in the tests of its
// invariants and of each scheduled time, in seconds; without it 20.
package clustertest
