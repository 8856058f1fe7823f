package runes

import (
	"strings"
	"unicode"
)

// IsInvisible reports whether a character is not seen in most fonts, or is a space other than
// U+0020. Two names that differ only in such characters look alike. Texts of some scripts and some
// emoji need a few of these characters, so only names of actors are refused because of them.
func IsInvisible(r rune) bool {
	const blankBraille = '\u2800'
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector) || r == blankBraille || r != ' ' && unicode.IsSpace(r)
}

// Fold returns the form in which texts are equal that differ only in case, as in strings.EqualFold.
func Fold(text string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, text)
}
