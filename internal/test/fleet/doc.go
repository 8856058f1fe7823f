// Package fleet runs one program as several processes that share PostgreSQL
// and memcached and nothing else: for examples and tests of locks.
//
// A Fleet starts the servers. It starts the current program again as a member, with arguments of
// the caller. In the member's process, Joining returns true and Join returns its Locker. The output
// of a member is its report, line by line. Its log goes to a separate file.
//
// The caller stops, pauses and kills members by their own process ids. On Linux members die with
// the process that started them.
package fleet
