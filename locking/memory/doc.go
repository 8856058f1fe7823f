// Package memory has a Backend and a Grants in the memory of one process. They serve
// replicas with SQLite and no memcached (the default), programs whose locks are all
// in one process, and tests.
//
// Items and sessions expire exactly on time, by the monotonic clock. A Backend and a
// Grants are never full. They are unavailable only to a call whose context has ended.
// Their contents end with the process.
package memory
