// Package permission decides who may do what. A Subject is who asks, and the Authorizer that
// answers. Page, API, command line and Go API put the Subject into a context (With), and each of
// them asks Require. A context without a Subject belongs to the program itself, which may do
// everything.
package permission
