// Package admin serves the page and the API of one replica: who holds which
// table, who waits for it, and why the last firing did not run.
//
// It changes nothing. Everything it shows comes from the store, and is judged
// by the store's clock, so every replica behind a load balancer gives the same
// answer. Four things are the replica's own, and are marked as such: its name
// and version, whether it can start runs, how it sees memcached, and the next
// firings, which its own cron table gives.
//
// # Locks
//
// A grant in the store is a lock: it alone decides who holds. What stage 1
// (memcached) says about the same resource is put beside it: held, missing,
// other (somebody else is named there), off (there is no stage 1, or it does
// not take locks of this mode) or unknown (it could not be asked). A run takes
// stage 1 before its grant and gives it back after, so a doubtful word is
// believed only if the grant still stands when the store is asked again.
//
// # When the store does not answer
//
// Every question has three seconds. After that, or on an error, the API
// answers 503 with the error in words; the overview shows the last state this
// replica saw, marked stale and with its age. A page is never blank.
//
// # Who may read
//
// A server without users listens on loopback only, and answers only requests
// whose Host names loopback, so that a web page elsewhere cannot read it
// through a name that it points there. With users every route but /healthz and
// /readyz asks for HTTP Basic authentication. Names, errors and output come
// from jobs and are untrusted: they are escaped and cut to length.
package admin
