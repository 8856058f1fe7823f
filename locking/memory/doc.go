// Package memory keeps locks in the memory of one process: both stages, for
// the embedded default, for several replicas in one process, which share one
// Backend and one Grants, and for tests.
//
// Expiry follows the monotonic clock and is exact, so it is never early.
// Neither is ever full or unavailable; what they hold ends with the process.
package memory
