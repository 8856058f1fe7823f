// Package rules has the decisions of stores that decide in Go: SQLite and the store of the
// simulation. A rule gets values and returns a decision; the store reads and writes. PostgreSQL has
// the same rules in SQL. internal/test/jobstest tests the rules in all stores.
package rules
