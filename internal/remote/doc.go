// Package remote is for commands that use the API of a replica. It reads from the API, and performs
// actions with it. The sender is the owner of a token.
//
// A [Client] sends the token only to the server that it was made for: it follows no redirects, and
// sends the token over plain HTTP only to this machine, unless the caller allows more. No error
// has the token. Requests and answers have limits of size and time.
//
// Refusals of the API are a [*Refusal] with the text of the replica. It wraps the error that the
// action would return without the API, such as storage.ErrNotFound, so that callers treat both
// alike.
package remote
