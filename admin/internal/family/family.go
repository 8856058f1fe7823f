// Package family finds jobs that differ only in the end of their names and in their resources, as
// the jobs of one for_each do.
package family

import (
	"strings"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// MinJobs is the number of jobs from which a family folds.
	MinJobs = 3
	// separators end the part of a name that the jobs of a family have in common.
	separators = "./:_-"
)

// Traits are what the jobs of a family have in common, apart from a part of their names.
type Traits struct {
	Schedule, Timezone, Handler, Description, Group string
	Source                                          storage.Source
}

// AtStart returns how many jobs at the start of a list are a family, and the common part of their
// names. The functions return the name and the traits of a job of the list.
func AtStart(jobs int, name func(int) string, traits func(int) Traits) (n int, prefix string) {
	prefix = name(0)
	for n = 1; n < jobs; n++ {
		shared := commonStart(prefix, name(n))
		if shared == "" || traits(n) != traits(0) {
			break
		}
		prefix = shared
	}
	return n, prefix
}

// commonStart returns the common start of two names up to a separator, or "".
func commonStart(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:strings.LastIndexAny(a[:n], separators)+1]
}
