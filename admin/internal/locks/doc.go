// Package locks has what the pages and the API show of locks: the current locks with their waiters,
// their history, the waits between jobs, and the conflicts to come.
//
// Each lock also shows the state of the advisory lock in memcached. A run takes its advisory lock
// before its grant and releases it after, so the states missing and other are shown only if a
// second query of the store still finds the grant.
package locks
