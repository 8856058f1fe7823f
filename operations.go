package holdfast

import (
	"encoding/json"
	"errors"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// specReader reads jobs that are added at run time, as the configuration reads
// its own.
type specReader struct {
	config   func() *configs.Config // as it is now
	registry *jobs.Registry
}

// build makes a job of the text that the store keeps.
func (s specReader) build(text json.RawMessage) (jobs.Job, error) {
	job, err := s.parse(text)
	if err != nil {
		return jobs.Job{}, err
	}
	return jobOf(s.config(), *job), nil
}

// complete checks what somebody wrote, and returns what the store is to keep.
func (s specReader) complete(written []byte,
	added map[string]schedule.Schedule) (json.RawMessage, error) {
	job, err := s.parse(written, configs.WithJobs(added))
	if err != nil {
		return nil, err
	}
	return json.Marshal(job)
}

func (s specReader) parse(text []byte, options ...configs.Option) (*configs.Job, error) {
	job, err := s.config().ParseJob("job", text,
		append(options, configs.WithHandlers(paramChecker{s.registry}))...)
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		return job, err
	}
	problems := make([]jobs.SpecProblem, len(wrong.Problems))
	for i, p := range wrong.Problems {
		problems[i] = jobs.SpecProblem{Line: p.Line, Column: p.Column, Key: p.Key,
			Message: p.Message}
	}
	return nil, &jobs.SpecError{Problems: problems}
}

// newOperations returns what operators do by way of the store. Cancelled is nil
// beside all replicas.
func newOperations(
	s specReader, table []jobs.Job, control jobs.Control, outbox jobs.Outbox,
	locker *locking.Locker, replica string,
	cancelled func(jobs.Record), log zerolog.Logger,
) *jobs.Operations {
	return jobs.NewOperations(jobs.OperationsOptions{
		Control: control, Outbox: outbox, Registry: s.registry, Jobs: table, Build: s.build,
		Complete: s.complete, Locker: locker, Replica: replica, Cancelled: cancelled, Log: log,
	})
}

// Operations returns what operators may do through this replica, once Open has
// succeeded; nil before. It may be used while the replica runs and, since acts
// are the store's, also while it does not.
func (r *Replica) Operations() *jobs.Operations { return r.operations }
