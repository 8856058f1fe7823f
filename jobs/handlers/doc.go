// Package handlers contains the built-in handlers: sql, http and command.
//
// A program registers the handlers that it needs:
//
//	registry, err := jobs.NewRegistry(handlers.SQL(), handlers.HTTP(nil), handlers.Command())
//
// # Guarantees
//
// The effects of sql happen at most once: the check of the claim, the statements and the end of
// the run are one transaction.
//
// http and command work outside of the store. They get the fencing token of the run, which is
// larger for each later run that conflicts. A system that refuses tokens smaller than the largest
// that it has seen is protected from superseded runs. Otherwise their effects are best effort.
//
// # End of a run
//
// All three return soon after the context of the run has ended, with an error that wraps its
// cause. The last output of a response or a process is stored with the run, and the error quotes
// a part of it.
package handlers
