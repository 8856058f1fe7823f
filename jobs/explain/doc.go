// Package explain says why a firing had its outcome: one sentence first, then the facts behind it.
//
// It derives the answer from the history in the store and from the schedules of the replica. It
// changes nothing.
package explain
