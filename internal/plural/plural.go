// Package plural chooses between the singular and the plural of words after a number.
package plural

import "strconv"

// Of returns the number in figures with the singular or the plural of a noun: "1 job", "2 jobs".
func Of(n int, one, many string) string { return strconv.Itoa(n) + " " + Word(n, one, many) }

// Word returns one if n is 1, else many.
func Word(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
