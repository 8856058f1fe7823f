// Package simstore is an in-memory storage.Store for tests. It follows the contract of all stores,
// takes microseconds per call, and loses its data with the process.
//
// Its only clock is time.Now, so that it works in a bubble of testing/synctest: a year of a cluster
// then takes seconds. [Store.SetAhead] moves its clock against that of the replicas, which must
// correct for it.
//
// It simulates faults. [Store.SetDown] makes every call fail. A [Link] is the connection of one
// replica to the store. It can be cut, be slow, lose replies of calls that took effect, and misread
// the store's clock.
//
// It also has data for an oracle: [Store.Changes] returns the changes of active definitions, and
// [Store.Everything] returns all runs.
package simstore
