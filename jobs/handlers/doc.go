// Package handlers holds the handlers that need no Go: sql, http and command.
//
// A program registers those that it wants to offer:
//
//	registry, err := jobs.NewRegistry(handlers.SQL(), handlers.HTTP(nil), handlers.Command())
//
// # What each can promise
//
// sql has its effects at most once: its statements, the check that its claim
// still stands and the record that it succeeded are one transaction.
//
// http and command work outside the store. They are told the run's token,
// which grows with each run that may conflict: a system that remembers the
// largest one it has seen, and refuses smaller ones, is protected from a run
// that was superseded and does not know it yet. Without that their effects are
// best effort.
//
// # How they end
//
// All three return soon after the run's context has ended, with an error that
// wraps its cause. What a response or a process wrote last is kept with the run,
// and shortly quoted in the error.
package handlers
