// Package admin serves the page and the API of one replica: who holds which
// table, who waits for it, and why the last firing did not run.
//
// It changes only what operators ask for. Everything it shows comes from the store, and is judged
// by the store's clock, so every replica behind a load balancer gives the same
// answer. Four things are the replica's own, and are marked as such: its name
// and version, whether it can start runs, how it sees memcached, and the next
// firings, which its own cron table gives.
//
// # Acts
//
// Each action has a page that says what would happen, to what, and a form; the API
// has a POST for each. An action and its line in the audit log are one transaction,
// done once for each key: a form has one from when it is first shown. A form
// that is refused comes back with what was typed.
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
// # Who may use it
//
// One table of routes says for each who may use it, and Handler builds the
// guards from it. For strangers there are sign-in, health and assets alone;
// a viewer reads, and whatever is no GET is for operators. Somebody is known by
// a cookie that any replica has signed, by a token, or by the word of a proxy
// in front; nothing of this is kept, so that it works while the store is down.
// Failed sign-ins are counted by user and by address.
//
// A server that tells nobody apart listens on loopback only, and lets
// everybody act who gets there. Each server answers only under the names that
// it knows, so that a web page elsewhere cannot reach it through a name that
// it points there.
//
// Names, errors and output come from jobs and are untrusted: they are escaped
// and cut to length.
package admin
