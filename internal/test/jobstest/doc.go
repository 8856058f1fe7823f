// Package jobstest holds the conformance suite of jobs.Store: what every store
// must do, rule by rule.
//
// A store's test calls [Run] with a function that opens a fresh store. Each
// test is named for the rule it holds, and uses only what the contract
// promises: no store's clock, schema or wording. Time never has to pass; where
// a session must run out, the [Fixture] makes it.
//
// Two groups are of another kind. The contention tests let many goroutines
// start random sets of resources from several sessions and check that no two
// conflicting grants are ever active at once. The model test draws random
// sequences of calls and compares each answer with a model small enough to be
// seen to be right.
package jobstest
