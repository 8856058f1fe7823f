// Package suggest finds the name that a user may have meant by a mistyped one.
package suggest

import (
	"fmt"
	"strings"
)

const (
	// maxLength is the length in bytes of the longest name that is compared. The time to compare
	// two names grows with the product of their lengths.
	maxLength = 64
	maxListed = 50 // candidates in a hint
)

// Hint returns `; did you mean "x"?` for the candidate nearest to name. If none is
// near it returns `; expected one of` and the candidates, at most 50, and "" without candidates.
func Hint(name string, candidates []string) string {
	if near := Of(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	switch more := len(candidates) - maxListed; {
	case len(candidates) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("; expected one of %s and %d more",
			strings.Join(candidates[:maxListed], ", "), more)
	}
	return "; expected one of " + strings.Join(candidates, ", ")
}

// Of returns the candidate with the fewest edits from name, if they are few for its
// length, or "". It returns "" for a name of more than 64 bytes, and no longer candidate.
func Of(name string, candidates []string) string {
	if len(name) > maxLength {
		return ""
	}
	best, fewest := "", max(1, len(name)/3)+1
	for _, candidate := range candidates {
		if len(candidate) > maxLength {
			continue
		}
		if n := edits(strings.ToLower(name), strings.ToLower(candidate), fewest); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// edits returns how many insertions, deletions, replacements and swaps of adjacent
// letters turn a into b. It returns limit if the difference in length is larger.
func edits(a, b string, limit int) int {
	from, to := []rune(a), []rune(b)
	if max(len(from), len(to))-min(len(from), len(to)) >= limit {
		return limit
	}
	before, last, row := make([]int, len(to)+1), make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}
	for i := range from {
		row[0] = i + 1
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(to)]
}
