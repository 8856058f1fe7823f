package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slowest is how many tests the summary lists.
const slowest = 20

// summary prints the slowest tests, the number of tests and the total time. The time of a parallel
// test does not include its wait for a turn.
func (r *report) summary(all time.Duration) {
	slices.SortStableFunc(r.took, func(a, b duration) int { return cmp.Compare(b.took, a.took) })
	var text strings.Builder
	if len(r.took) > 0 {
		text.WriteString("\nslowest tests:\n")
	}
	for _, d := range r.took[:min(slowest, len(r.took))] {
		fmt.Fprintf(&text, "%8.2fs  %s  %s\n", d.took.Seconds(), d.pkg, d.test)
	}
	fmt.Fprintf(&text, "\n%d tests passed, %d failed, %d skipped; %s in all\n",
		r.counts["pass"], r.counts["fail"], r.counts["skip"], all.Round(time.Second))
	r.print(text.String())
}
