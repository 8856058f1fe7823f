package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/locking"
)

// validateCommand returns the command "validate".
func (c *commandLine) validateCommand() *cobra.Command {
	var print bool
	cmd := &cobra.Command{
		Use: "validate", Short: "Check the configuration and report every mistake",
		Long: `Check the configuration and report every mistake. With --print, also print the jobs
of the file, with one job for each item of for_each, and those of the program. In
JSON and YAML they have their params, without secrets, and their policies.`,
		Example: `  scheduler validate -c holdfast.yaml
  scheduler validate --print -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			if err := c.program.CheckStore(config); err != nil {
				return err
			}
			if print {
				return c.printJobs(config)
			}
			return c.print(map[string]any{"config": c.configPath, "jobs": len(config.Jobs),
				"valid": true},
				c.validText(config), nil)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the jobs of the file and of the program")
	return cmd
}

// validText says that the configuration is valid, and counts its jobs.
func (c *commandLine) validText(config *configs.Config) string {
	return c.configPath + " is valid: " + plural.Of(len(config.Jobs), "job", "jobs")
}

// The sources of a configured job.
const (
	fromFile    = "file"
	fromProgram = "program"
)

// configuredJob is a job of the file or of the program, with the defaults of the configuration.
type configuredJob struct {
	Name        string            `json:"job"`
	Source      string            `json:"source"` // fromFile or fromProgram
	Description string            `json:"description,omitempty"`
	Group       string            `json:"group,omitempty"`
	Schedule    string            `json:"schedule"`
	Timezone    string            `json:"timezone"`
	Calendars   []string          `json:"calendars,omitempty"`
	Handler     string            `json:"handler"`
	Database    string            `json:"database,omitempty"` // "": that of the store
	Resources   []requestedByJob  `json:"resources"`
	Params      json.RawMessage   `json:"params"` // with [redacted] in place of secrets
	Overridable []string          `json:"overridable,omitempty"`
	Policies    map[string]string `json:"policies"` // a sentence for each key
}

// requestedByJob is a resource that a job locks.
type requestedByJob struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots,omitempty"`
}

// String returns the name, and the mode unless it is exclusive.
func (r requestedByJob) String() string {
	if r.Mode == locking.Exclusive {
		return r.Resource
	}
	return fmt.Sprintf("%s (%s)", r.Resource, r.Mode)
}

// printJobs prints the jobs of a checked configuration.
func (c *commandLine) printJobs(config *configs.Config) error {
	ofProgram := map[string]bool{}
	for _, j := range c.program.Jobs {
		ofProgram[j.Name()] = true
	}
	table := app.Jobs(config)
	list, rows := make([]configuredJob, len(table)), make([][]string, len(table))
	for i, j := range table {
		source := fromFile
		if ofProgram[j.Name] {
			source = fromProgram
		}
		one := newConfiguredJob(j, source, config.Jobs[i].Timezone)
		names := make([]string, len(one.Resources))
		for i, r := range one.Resources {
			names[i] = r.String()
		}
		list[i] = one
		rows[i] = []string{one.Name, source, one.Schedule, one.Timezone, one.Handler,
			strings.Join(names, ", ")}
	}
	return c.print(list, "JOB\tSOURCE\tSCHEDULE\t~ZONE\tHANDLER\t…RESOURCES", rows)
}

// newConfiguredJob returns a job with its source and zone.
func newConfiguredJob(j jobs.Job, source, zone string) configuredJob {
	params := j.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	one := configuredJob{Name: j.Name, Source: source, Description: j.Description, Group: j.Group,
		Schedule: j.Schedule.String(), Timezone: zone, Calendars: j.Schedule.Calendars(),
		Handler: j.Handler, Database: j.Database, Resources: []requestedByJob{},
		Params: redact.Params(params, j.Secrets), Overridable: j.Overridable,
		Policies: map[string]string{}}
	for _, r := range j.Resources {
		if r.Resource.Kind() != locking.KindJob {
			one.Resources = append(one.Resources,
				requestedByJob{r.Resource.String(), r.Mode, r.Slots})
		}
	}
	for _, p := range explain.Policies(&j) {
		one.Policies[p.Key] = p.Text
	}
	return one
}
