package configs

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/parallel"
)

// ErrNotRead reports a Config or a job that differs from what Load, Parse or Build returned. Checks
// and derived values, such as each job's Schedule and Requests, may be missing or wrong.
var ErrNotRead = errors.New("not returned by Load, Parse or Build, or changed since")

// CheckRead returns nil if Load, Parse or Build returned c, and its jobs have not changed since. It
// does not detect changes of other fields. Its errors wrap ErrNotRead, and name the changed jobs.
func (c *Config) CheckRead() error {
	if !c.read {
		return fmt.Errorf("configuration: %w", ErrNotRead)
	}
	problems := make([]error, len(c.Jobs))
	parallel.For(len(c.Jobs), func(i int) {
		if j := &c.Jobs[i]; j.read != j.digest() {
			problems[i] = fmt.Errorf("job %q: %w", j.Name, ErrNotRead)
		}
	})
	return errors.Join(problems...)
}

// markRead records the digests of c and its jobs.
func (c *Config) markRead() {
	c.read, c.begun = true, byParse
	parallel.For(len(c.Jobs), func(i int) { c.Jobs[i].read = c.Jobs[i].digest() })
}
