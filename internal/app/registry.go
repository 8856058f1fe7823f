package app

import (
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

// NewRegistry returns a registry of the built-in handlers and the program's own.
func NewRegistry(own []jobs.Registration) (*jobs.Registry, error) {
	return jobs.NewRegistry(append([]jobs.Registration{handlers.SQL(), handlers.HTTP(nil),
		handlers.Command()}, own...)...)
}

// ParamChecker checks the params of a configuration against the handlers of a registry.
type ParamChecker struct{ *jobs.Registry }

// Check returns the mistakes that a handler finds in params.
func (c ParamChecker) Check(handler string, params json.RawMessage) []configs.ParamProblem {
	_, err := c.Bind(handler, params)
	var refused *jobs.ParamsError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return []configs.ParamProblem{{Message: err.Error()}}
	}
	problems := make([]configs.ParamProblem, len(refused.Problems))
	for i, p := range refused.Problems {
		problems[i] = configs.ParamProblem(p)
	}
	return problems
}
