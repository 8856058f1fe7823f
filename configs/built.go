package configs

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrNotRead says that a Config or one of its jobs is not as Load or Parse returned it: what they
// check and derive, above all each job's Schedule and Requests, may be missing or wrong.
var ErrNotRead = errors.New("not read by Load or Parse, or changed since; " +
	"write what a program builds as YAML and give it to Parse")

// digest identifies a job as it was read, with what was derived from it. A zero digest is of a
// job that was not read.
type digest [sha256.Size]byte

// CheckRead returns nil where c and its jobs are as Load or Parse returned them, else errors that
// wrap ErrNotRead, each with the name of its job.
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

// markRead remembers c and its jobs as they are.
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
