package proxyheader

import (
	"regexp"
	"slices"
	"strings"
)

// MinSecret is the length of the shortest secret of a proxy in bytes.
const MinSecret = 32

// name matches the header names of RFC 9110.
var name = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")

// IsValid reports whether a text is the name of a header.
func IsValid(header string) bool { return name.MatchString(header) }

// IsName reports whether a proxy may put the name of a user or its secret into the header: any
// client can send some headers with another meaning.
func IsName(header string) bool {
	return IsValid(header) && !slices.Contains([]string{"authorization", "cookie", "host",
		"origin", "referer", "user-agent", "x-forwarded-for", "x-forwarded-proto"},
		strings.ToLower(header))
}

// IsValue reports whether a header can have the secret: printable ASCII without spaces.
func IsValue(secret string) bool {
	return !strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' })
}
