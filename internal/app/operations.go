package app

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// SpecParser parses jobs that operators add at run time, by the rules of the configuration.
type SpecParser struct {
	Config   func() *configs.Config // the current configuration
	Registry *jobs.Registry
}

// Build returns the job of a text from the store.
func (s SpecParser) Build(text json.RawMessage) (jobs.Job, error) {
	job, err := s.parse(text)
	if err != nil {
		return jobs.Job{}, err
	}
	return jobOf(s.Config(), *job), nil
}

// Complete checks the text of an operator and returns the text for the store, with all defaults
// filled in. Added are the schedules of the jobs that were added before.
func (s SpecParser) Complete(
	written []byte, added map[string]schedule.Schedule,
) (json.RawMessage, error) {
	job, err := s.parse(written, configs.WithJobs(added))
	if err != nil {
		return nil, err
	}
	return json.Marshal(job)
}

// parse returns the job of a text, or a *operations.SpecError with all mistakes in it.
func (s SpecParser) parse(text []byte, options ...configs.Option) (*configs.Job, error) {
	job, err := s.Config().ParseJob("job", text,
		append(options, configs.WithHandlers(ParamChecker{s.Registry}))...)
	var wrong *configs.Errors
	switch {
	case err == nil && lacksPostgres(s.Config(), s.Registry, job.Handler):
		return nil, &operations.SpecError{Problems: []operations.SpecProblem{{Key: "handler",
			Message: fmt.Sprintf("found %q, which needs PostgreSQL, expected a handler that works "+
				"with SQLite", job.Handler)}}}
	case !errors.As(err, &wrong):
		return job, err
	}
	problems := make([]operations.SpecProblem, len(wrong.Problems))
	for i, p := range wrong.Problems {
		problems[i] = operations.SpecProblem{Line: p.Line, Column: p.Column, Key: p.Key,
			Message: p.Message}
	}
	return nil, &operations.SpecError{Problems: problems}
}

// Control is what actions need of a store.
type Control interface {
	operations.Control
	operations.Lookup
}

// NewOperations returns the actions of operators. Configured returns a job of the configuration.
// Outside a replica, replica is "" and cancelled is nil.
func NewOperations(
	s SpecParser, configured func(name string) (jobs.Job, bool), control Control,
	outbox storage.Outbox, locker *locking.Locker, replica string,
	cancelled func(storage.Record), log zerolog.Logger,
) *operations.Operations {
	return operations.New(operations.Options{
		Control: control, Lookup: control, Outbox: outbox,
		Registry: s.Registry, Configured: configured, Build: s.Build,
		Complete: s.Complete, Locker: locker, Replica: replica, Cancelled: cancelled, Log: log,
	})
}
