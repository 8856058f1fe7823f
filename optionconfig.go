package holdfast

import (
	"errors"

	"github.com/holdfast-dev/holdfast/configs"
)

// load returns the configuration with the program's changes and jobs, all of it checked.
func (o *options) load() (*configs.Config, error) {
	checked, err := o.CheckParams()
	switch {
	case err != nil:
		return nil, err
	case o.fromFile && o.given:
		return nil, errors.New("found WithConfig and WithConfigFile, expected one of them")
	case o.fromFile && o.file == "":
		return nil, errors.New(`found "" in WithConfigFile, expected a path`)
	case o.given && o.config == nil:
		return nil, errors.New("found nil in WithConfig, expected a configuration")
	case o.given:
		return o.complete(o.config)
	case !o.fromFile:
		config := configs.Defaults()
		config.Admin.Listen = ""
		return o.complete(&config)
	}
	config, err := configs.Load(o.file, checked, configs.WithBuiltJobs(o.Jobs...),
		configs.WithReplaced(o.replaced...))
	if err != nil || len(o.changes) == 0 {
		return config, err
	}
	// No job depends on a key that the program changes, so the jobs are not read again.
	changed := o.changed(config)
	changed.Jobs = nil
	built, err := configs.Build(changed, checked)
	if err != nil {
		return nil, err
	}
	built.Jobs = config.Jobs
	return built, nil
}

// complete returns config with the program's changes and jobs. The program may have changed its
// fields, so it is checked again.
func (o *options) complete(config *configs.Config) (*configs.Config, error) {
	if config == nil {
		return nil, errors.New("found nil, expected a configuration")
	}
	checked, err := o.CheckParams()
	if err != nil {
		return nil, err
	}
	return configs.Build(o.changed(config), checked, configs.WithBuiltJobs(o.Jobs...))
}

// changed returns a copy of config with the program's changes.
func (o *options) changed(config *configs.Config) configs.Config {
	copied := *config
	for _, change := range o.changes {
		change(&copied)
	}
	return copied
}
