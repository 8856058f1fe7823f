package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Locks returns every lock by resource, those on job names left out, with what
// stage1 says of each; a nil stage1 is off. It is what the API serves, for a
// command line.
func Locks(ctx context.Context, store jobs.History, stage1 Stage1) ([]Lock, error) {
	set, err := newReader(Options{Store: store, Stage1: stage1}).locks(ctx)
	return set.locks, err
}

// Jobs returns every job by name, with its next due by upcoming, which is as
// in Options and may be nil. It is what the API serves, for a command line.
func Jobs(ctx context.Context, store jobs.History, upcoming func(from time.Time, n int) []Due) ([]Job, error) {
	return newReader(Options{Store: store, Upcoming: upcoming}).jobs(ctx)
}
