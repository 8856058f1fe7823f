// Package operations has the actions of operators. The page, the API, the command line and Go
// programs use it.
//
// Operations first checks an action. Then the store does it, in one transaction with its entry in
// the audit log. Every replica obeys within about a second.
package operations
