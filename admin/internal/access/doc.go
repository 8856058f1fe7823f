// Package access says who sends a request and whether it is admitted.
//
// A sender is identified by a cookie that any replica signed, by a token, or by the header of a
// trusted proxy. No sign-in is stored, so access works while the store is down. Failed sign-ins are
// counted by user and by address. The package also bounds the connections of a server, and reads
// its certificate.
package access
