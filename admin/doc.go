// Package admin serves the pages and the JSON API of one replica. They show which run holds which
// table, which runs wait for it, and why a firing did not run.
//
// The package changes state only when an operator asks for it. Almost all data come from the store,
// and ages and expiries use the store's clock. So every replica behind a load balancer gives the
// same answer, except for these data, which are local to it:
//
//   - its name and version, and whether it is ready
//   - its view of memcached
//   - what comes from its cron table: next scheduled times, next firings, upcoming conflicts,
//     explanations, and the params, policies, webhooks and dependencies of a job
//   - the problems of the status that have just ended, unless they are about failing jobs or lost
//     replicas
//
// Each page names the replica that answers.
//
// # Actions
//
// Each action has a page that describes its effect, with a form, and a POST in the API. An action
// and its entry in the audit log are one transaction, which runs once for each idempotency key. A
// form gets its key when it is first shown. A refused form is shown again with its input.
//
// # Locks
//
// A grant in the store is a lock. It alone decides who holds a resource. Each lock also shows the
// state of the advisory lock in memcached: held, missing, other, off or unknown. Other means that
// memcached names another holder. Off means that there is no memcached, or that locks of this mode
// have no advisory lock. Unknown means that memcached did not answer. The server reads memcached
// after the store, so a run that ends in between looks as if it had lost its advisory lock. So a
// lock in the state missing or other is shown only if a second query of the store still finds its
// grant.
//
// # When the store does not answer
//
// The queries of a page or an answer together have three seconds. A search, and the look-up of the
// job that a request is about, have three seconds of their own. After that, or on an error, the API
// answers 503 with the error. Pages show the last copy that this replica cached, marked as stale
// with its age. A page is never blank.
//
// A request waits for its turn for at most half of that time, because few requests query the store
// at the same time. Then its answer says that there are too many, and has the last status of the
// cluster. So does the answer to a request that got no connection while other requests used the
// store. A refresh then gets 204 without content, and the browser keeps its page, unless the cached
// copy is 10 seconds old.
//
// # Access
//
// A single table of routes lists the access that each route requires, and Handler builds the guards
// from it. Only sign-in, health and assets are open to everybody. A sign-out requires a sign-in.
// Each other route requires a permission (package permission). A sender is identified by a cookie
// that any replica signed, by a token, or by the header of a trusted proxy. No sign-in is stored,
// so access works while the store is down. Failed sign-ins are counted by user and by address.
//
// A server cannot tell senders apart if it has no users, no tokens, no OIDC, no proxy that names
// users, and no Authenticate. It then listens on loopback only, and treats every sender as an
// operator. A server answers only to the host names that it knows, which prevents DNS rebinding.
// With Authenticate it answers to all names: the program must check them.
//
// Names, errors and output come from jobs and are untrusted. They are escaped and cut to length.
package admin
