// Package operations has the actions of operators: trigger, backfill, pause, resume, cancel,
// release, drain, changes of jobs that are added at run time, and new deliveries of webhooks. The
// page, the API, the command line and Go programs use it.
//
// An action is checked first and then done in the store, in one transaction with its entry in the
// audit log. Every replica obeys within about a second, whichever of them was asked.
package operations
