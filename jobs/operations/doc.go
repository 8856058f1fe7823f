// Package operations has the actions of operators: trigger, pause, resume, cancel, release, drain,
// and jobs that are added at run time. The page, the API, the command line and Go programs use it.
//
// An action is checked first and then done in the store, in one transaction with its line in the
// audit log. Every replica obeys within about a second, whichever of them was asked.
package operations
