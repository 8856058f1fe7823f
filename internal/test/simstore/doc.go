// Package simstore is a jobs.Store in memory, for tests: it says what every
// store says, in a few microseconds, and loses all with its process.
//
// It reads no clock but time.Now, so that it lives in a bubble of
// testing/synctest: a year of a cluster then takes seconds. [Store.SetAhead]
// moves its clock against that of the replicas, which have to correct for it.
//
// It fails when it is told to. [Store.SetDown] makes every call of everybody
// fail. A [Link] is one replica's way to the store: it can be cut, be slow, lose
// replies of calls that took effect, and tell the time wrongly.
//
// What it keeps besides is for an oracle: [Store.Changes], which definition of
// a job was active when, and [Store.Everything], each run there ever was.
package simstore
