// Package fleet runs one program as several processes that share PostgreSQL
// and memcached and nothing else: for examples and tests of locks.
//
// A Fleet starts the servers, and starts the program that it is in again, as a
// member, with arguments of the caller's. In the member's process Joining tells
// that it is one, and Join gives it its Locker. What a member prints is what it
// reports, line by line; its log is kept apart, for when something fails.
//
// Members are stopped, paused and killed by their own process ids, and die with
// the process that started them (on Linux).
package fleet
