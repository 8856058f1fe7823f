// Package permission decides who may do what. A Subject is an Identity, such as a user or a token,
// with the Authorizer that decides about its permissions. The page and the JSON API put the Subject
// of each request into a context (With). A Go program can do the same for its own users. Require
// checks a permission of the Subject in a context. A context without a Subject belongs to the
// program or the command line, which may do everything.
package permission
