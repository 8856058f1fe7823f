package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

func (c *commandLine) jobsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "jobs", Short: "List the jobs that the store knows, with their last run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(config *configs.Config, store app.Storage) error {
				scheduledTimes, err := c.nextScheduledTimes(cmd.Context(), config, store)
				if err != nil {
					return err
				}
				list, err := admin.Jobs(cmd.Context(), store, scheduledTimes)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, j := range list {
					rows[i] = []string{j.Name, j.Schedule, j.Timezone, j.Handler,
						resourceNames(j.Resources), clock(j.NextScheduledAt), lastRun(j.LastRun)}
				}
				return c.print(list, "JOB\tSCHEDULE\tZONE\tHANDLER\tRESOURCES\tNEXT "+
					"SCHEDULED\tLAST RUN", rows)
			})
		},
	}
}

// nextScheduledTimes returns the next scheduled times of a job by the configuration, or by what was
// added at run time. An added job that can't be read with this configuration has none.
func (c *commandLine) nextScheduledTimes(ctx context.Context, config *configs.Config,
	store app.Storage) (func(string, time.Time, int) []time.Time, error) {
	registry, err := app.NewRegistry(c.handlers)
	if err != nil {
		return nil, err
	}
	now, err := store.ControlState(ctx, uuid.Nil, 0)
	if err != nil {
		return nil, fmt.Errorf("added jobs: %w", err)
	}
	schedules := make(map[string]schedule.Schedule, len(config.Jobs)+len(now.Specs))
	specs := app.Specs{Config: func() *configs.Config { return config }, Registry: registry}
	for _, s := range now.Specs {
		if job, err := specs.Build(s.Text); err == nil {
			schedules[s.Job] = job.Schedule
		}
	}
	for _, j := range config.Jobs {
		schedules[j.Name] = j.Schedule
	}
	return func(job string, from time.Time, n int) []time.Time {
		return schedule.ScheduledTimes(schedules, job, from, n)
	}, nil
}

func (c *commandLine) runsCommand() *cobra.Command {
	var filter jobs.RunFilter
	var states []string
	cmd := &cobra.Command{
		Use: "runs [RUN]", Short: "List runs, the youngest first, or show one with its output " +
			"and result", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.showRun(cmd, args[0])
			}
			for _, state := range states {
				if !slices.Contains(jobs.States(), jobs.State(state)) {
					return fmt.Errorf("--state: expected one of %v, found %q", jobs.States(), state)
				}
				filter.States = append(filter.States, jobs.State(state))
			}
			if filter.Limit < 1 || filter.Limit > jobs.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", jobs.MaxBatch, filter.Limit)
			}
			return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
				list, err := store.Runs(cmd.Context(), filter)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, r := range list {
					rows[i] = []string{r.ID.String(), r.Job, clock(&r.ScheduledAt), string(r.State),
						r.Replica, clock(r.StartedAt), took(r), why(r)}
				}
				return c.print(append([]jobs.Record{}, list...),
					"RUN\tJOB\tSCHEDULED\tSTATE\tREPLICA\tSTARTED\tTOOK\tWHY", rows)
			})
		},
	}
	cmd.Flags().StringVar(&filter.Job, "job", "", "only runs of this `job`")
	cmd.Flags().StringVar(&filter.Replica, "replica", "", "only runs on this `replica`")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only runs in this `state`; may be repeated")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 50, "how many runs")
	return cmd
}

func (c *commandLine) locksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "locks", Short: "List the resources that are held, and by whom", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(config *configs.Config, store app.Storage) error {
				return withStage1(cmd.Context(), config, store, func(locker *locking.Locker) error {
					var stage1 admin.Advisory
					if locker != nil {
						stage1 = locker
					}
					list, err := admin.Locks(cmd.Context(), store, stage1)
					if err != nil {
						return err
					}
					rows := make([][]string, len(list))
					for i, l := range list {
						rows[i] = []string{
							l.Resource, string(l.Mode), l.Holder.Job, l.Holder.Replica,
							l.Holder.Run, fmt.Sprint(l.Token),
							clock(&l.Since), clock(&l.ExpiresAt), string(l.Advisory),
						}
					}
					return c.print(list,
						"RESOURCE\tMODE\tJOB\tREPLICA\tRUN\tTOKEN\tSINCE\tEXPIRES\tADVISORY LOCK",
						rows)
				})
			})
		},
	}
}

func resourceNames(resources []admin.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.Resource
	}
	return strings.Join(names, ", ")
}

func lastRun(r *jobs.Record) string {
	if r == nil {
		return "never"
	}
	return fmt.Sprintf("%s, %s", r.State, clock(r.FinishedAt))
}

// clock shows an instant in UTC.
func clock(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func took(r jobs.Record) string {
	length, ended := r.Took()
	if !ended {
		return "-"
	}
	return length.Round(time.Millisecond).String()
}

// why says in one line why a run did not succeed.
func why(r jobs.Record) string {
	var parts []string
	for _, part := range []string{string(r.Reason), r.Detail, r.Error} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if r.State == jobs.Waiting && r.BlockedBy != nil {
		parts = append(parts, r.BlockedBy.Words("is held by"))
	}
	return strings.Join(parts, ": ")
}

// printable keeps a cell on its line, and out of the terminal's control.
func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, cell)
}
