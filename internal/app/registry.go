package app

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

// NewRegistry returns a registry of the built-in handlers and the program's own. Its http jobs may
// have all targets that are allowed by default.
func NewRegistry(own []jobs.Registration) (*jobs.Registry, error) {
	return newRegistry(nil, nil, own)
}

// newRegistry returns a registry without the disabled built-in handlers, whose http jobs may have
// these targets.
func newRegistry(disabled []string, targets *egress.Rules, own []jobs.Registration) (
	*jobs.Registry, error) {
	client := &http.Client{Transport: targets.NewTransport()}
	all := slices.DeleteFunc(builtIn(client), func(r jobs.Registration) bool {
		return slices.Contains(disabled, r.Name)
	})
	return jobs.NewRegistry(append(all, own...)...)
}

func builtIn(client *http.Client) []jobs.Registration {
	return []jobs.Registration{handlers.SQL(), handlers.HTTP(client), handlers.Command()}
}

// BuiltInHandlers returns the names of the built-in handlers.
func BuiltInHandlers() []string {
	var names []string
	for _, r := range builtIn(http.DefaultClient) {
		names = append(names, r.Name)
	}
	return names
}

// CheckParams returns the option that checks params against the program's handlers.
func (o Options) CheckParams() (configs.Option, error) {
	registry, err := NewRegistry(o.Handlers)
	if err != nil {
		return nil, err
	}
	return configs.WithHandlers(ParamChecker{Registry: registry}), nil
}

// targetsOf returns the targets that http jobs and webhooks may have.
func targetsOf(config *configs.Config) (*egress.Rules, error) {
	targets := config.Handlers.HTTP
	return egress.NewRules(targets.Allow, targets.Deny)
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
