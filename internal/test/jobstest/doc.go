// Package jobstest contains the conformance suite of storage.Store: a test for each rule of the
// contract.
//
// The test of a store calls [Run] with a function that opens an empty store. Each test is named
// after its rule, and uses only the contract: no clock, schema or text of a store. No test waits
// for time to pass. If a session must expire, the [Fixture] makes it expire.
//
// Two groups differ. In the contention tests, many goroutines start runs that lock random sets of
// resources, from several sessions. They check that no two conflicting grants are active at the
// same time. The model test compares the answers to random sequences of calls with those of a small
// model.
package jobstest
