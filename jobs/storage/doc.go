// Package storage is the contract of Holdfast's stores. Package jobs/postgres stores in PostgreSQL,
// for clusters, and jobs/sqlite in a file, for one process. Every store passes the tests of
// internal/test/jobstest.
//
// [Store] is the sum of small interfaces. Stores also implement some interfaces outside of it, such
// as [RunStore] and [Outbox]. Packages that use a store declare interfaces with the methods that
// they call.
//
// # Rules for all methods
//
//   - Every method may be called concurrently.
//   - If the store cannot be reached, a method returns an error that wraps [ErrUnavailable]. Then
//     it is unknown whether the call had an effect.
//   - The store decides by its own clock. It uses times of replicas only where a comment says so.
//   - A list of requests, notes, checks, firings or names has at most [MaxBatch] elements, unless
//     the comment of its method says otherwise.
//   - In a filter, zero fields do not filter. A Limit is 1 to [MaxBatch], and 0 means 100.
//
// # Words
//
// docs/glossary.md explains all words. These are the most frequent:
//
//   - A firing is a job at one scheduled time, in the whole cluster. A run is one execution of a
//     firing. It has one or more attempts.
//   - A session is the record that a replica is alive. It ends, or expires without heartbeats.
//   - A claim is the row that gives a run its right to commit. Its number is the fencing token.
//     Grants are the resources that a claim holds.
//   - A fenced transaction first checks that the claim exists. A run without its claim is
//     superseded: it can commit nothing more.
//   - A waiter is a run that waits for a resource. Its blocker is the holder or the older waiter
//     for which it waits.
//   - A sweep ends expired sessions, records their runs as lost, and deletes their claims.
//   - To adopt a run is to take over a waiting run that no live session handles, or that a stopping
//     one has.
//   - A definition is one version of a job. Only replicas with the active definition fire the job.
//   - The misfire cursor of a job is the time up to which the store has decided on all its
//     scheduled times.
//   - A mark is a text that changes when the data of its topic change.
package storage
