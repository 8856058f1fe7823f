// Package handlers contains the built-in handlers: sql, http and command.
//
// A program registers the handlers that it needs:
//
//	registry, err := jobs.NewRegistry(handlers.SQL(), handlers.HTTP(nil), handlers.Command())
//
// # Guarantees
//
// The effects of sql happen at most once: the check of the claim, the statements and the end of
// the run are one transaction. If the job has a database other than the store, the end of the run
// is recorded later. The effects then happen at most once if that database has a fence (package
// fence).
//
// With the param share_transaction, the check, the statements and the end of several runs can be
// one transaction. If the statements of a run fail there, they have no effect, and the run executes
// them again in a transaction of its own.
//
// http and command work outside of the store. They pass on the fencing token of the run: http in
// the header X-Holdfast-Token, command in the environment variable HOLDFAST_TOKEN. Of two runs that
// conflict, the later one has the larger token. A system that refuses tokens smaller than the
// largest that it has seen is protected from superseded runs. In other systems, a superseded run
// can still have effects.
//
// # End of a run
//
// All three return soon after the context of the run has ended, with an error that wraps its cause.
// The end of a response, or of the output of a process, is stored with the run. The error quotes a
// part of it.
package handlers
