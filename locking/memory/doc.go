// Package memory has a Backend and a Grants in the memory of one process. They serve
// the embedded default, several replicas in one process, and tests.
//
// Expiry follows the monotonic clock and is exact, so it is never early. Neither is
// ever full or unavailable. Their contents end with the process.
package memory
