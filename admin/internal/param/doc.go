// Package param reads the parameters of a request and builds the addresses of other lists and
// pages. A mistake in a parameter is an *Error.
package param
