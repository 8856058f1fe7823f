package configs

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrNotRead reports a Config or a job that differs from what Load or Parse returned. Checks and
// derived values, such as each job's Schedule and Requests, may be missing or wrong.
var ErrNotRead = errors.New("not read by Load or Parse, or changed since; " +
	"write what a program builds as YAML and give it to Parse")

// digest identifies a job as it was read, including derived values. A zero digest belongs to a job
// that was not read.
type digest [sha256.Size]byte

// CheckRead returns nil if c and its jobs are as Load or Parse returned them. Otherwise it returns
// errors that wrap ErrNotRead and name the jobs.
func (c *Config) CheckRead() error {
	if !c.read {
		return fmt.Errorf("configuration: %w", ErrNotRead)
	}
	var problems []error
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.read != j.digest() {
			problems = append(problems, fmt.Errorf("job %q: %w", j.Name, ErrNotRead))
		}
	}
	return errors.Join(problems...)
}

// markRead records the digests of c and its jobs.
func (c *Config) markRead() {
	c.read = true
	for i := range c.Jobs {
		c.Jobs[i].read = c.Jobs[i].digest()
	}
}

func (j *Job) digest() digest {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n%q\n", j, j.Params.JSON(), j.Schedule.Fingerprint())
	for _, r := range j.Requests {
		fmt.Fprintf(hash, "%q %s %d\n", r.Resource.Key(), r.Mode, r.Slots)
	}
	return digest(hash.Sum(nil))
}
