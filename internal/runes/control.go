// Package runes classifies characters of names.
package runes

import "unicode"

// IsControl reports whether names must not have r: a control character, or one that changes the
// direction of text. The second kind can make a name look like another one.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || r > unicode.MaxASCII && unicode.Is(unicode.Bidi_Control, r)
}
