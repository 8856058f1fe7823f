package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/internal/zone"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxNext is the largest number of firings that the command "next" prints.
const maxNext = 100_000

// nextCommand returns the command "next".
func (c *commandLine) nextCommand() *cobra.Command {
	var expression, zone string
	var count int
	var excluded bool
	cmd := &cobra.Command{
		Use:   "next [JOB]",
		Short: "Preview the next firings of all jobs, of one job, or of a schedule expression",
		Long: `Preview the next firings. Without arguments, list the firings of all jobs in the
configuration, in order of time. With JOB, list those of one job. With --schedule,
list those of an expression, which needs no configuration. With -o json, --schedule
prints an array of times.

The last column shows how a clock change affects a firing. With --excluded, it also
names the calendar that excludes a firing.`,
		Example: `  scheduler next -n 20
  scheduler next rollup-sales --excluded
  scheduler next --schedule "quartz:0 0 12 LW * ?" --timezone Europe/Berlin
  scheduler next --schedule "*/5 9-17 * * mon-fri" --timezone Europe/Berlin -n 50 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > maxNext {
				return fmt.Errorf("-n: expected 1 to %d, found %d", maxNext, count)
			}
			start, err := timeFlag(cmd, "from")
			if err != nil {
				return err
			}
			if start.IsZero() {
				start = time.Now()
			}
			if cmd.Flags().Changed("schedule") {
				if len(args) > 0 {
					return errors.New("expected a job or --schedule, found both")
				}
				if excluded {
					return errors.New("--excluded: not allowed with --schedule, because an " +
						"expression has no calendars")
				}
				return c.nextOfExpression(expression, zone, start, count)
			}
			if cmd.Flags().Changed("timezone") {
				return errors.New("--timezone: allowed only with --schedule, because each job " +
					"has its own time zone")
			}
			return c.nextOfJobs(args, start, count, excluded)
		},
	}
	cmd.Flags().StringVar(&expression, "schedule", "", "schedule `expression`: cron, @daily, "+
		"\"quartz:0 0 12 L * ?\", every:90s, \"every 1 month at 02:30\", at:2026-01-31T09:00:00Z")
	cmd.Flags().StringVar(&zone, "timezone", "UTC", "time `zone` for --schedule")
	cmd.Flags().String("from", "",
		"start after this `time`, such as 2026-01-31T09:00:00Z or \"tomorrow 00:00\" "+
			"(default: now)")
	cmd.Flags().BoolVar(&excluded, "excluded", false,
		"also list firings that calendars exclude; -n does not count them")
	cmd.Flags().IntVarP(&count, "count", "n", 10, "`number` of firings")
	return cmd
}

// zoneOf returns the time zone of the flag --timezone.
func zoneOf(name string) (*time.Location, error) {
	location, err := zone.Load(name)
	if err != nil {
		return nil, fmt.Errorf("--timezone: unknown zone %q, expected a name such as Europe/Berlin",
			name)
	}
	return location, nil
}

// nextOfExpression prints the next scheduled times of an expression.
func (c *commandLine) nextOfExpression(expression, zone string, from time.Time, count int) error {
	location, err := zoneOf(zone)
	if err != nil {
		return err
	}
	s, err := schedule.ParseText(expression, location)
	if err != nil {
		return err
	}
	scheduledTimes := []string{}
	var rows [][]string
	for _, o := range s.Preview(from, count, false) {
		local := o.ScheduledAt.In(location)
		scheduledTimes = append(scheduledTimes, local.Format(time.RFC3339))
		rows = append(rows,
			[]string{localTime(local), o.ScheduledAt.Format(time.RFC3339), o.Change})
	}
	return c.print(scheduledTimes, "SCHEDULED\tUTC\tCLOCKS", rows)
}

// upcomingFiring is a firing as the command "next" prints it.
type upcomingFiring struct {
	Job         string    `json:"job"`
	ScheduledAt time.Time `json:"scheduled_at"`
	ExcludedBy  string    `json:"excluded_by,omitempty"` // the calendar that excludes the firing
	Clocks      string    `json:"clocks,omitempty"`      // how a clock change affects the firing
	// StartsAt is ScheduledAt plus the jitter of the firing. It is nil without jitter.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// After has the dependencies: the jobs that must succeed at the scheduled time.
	After []string `json:"after,omitempty"`
}

// remark returns the last column of the table.
func (u upcomingFiring) remark() string {
	var remarks []string
	switch {
	case u.ExcludedBy != "":
		remarks = append(remarks, "excluded by "+u.ExcludedBy)
	case len(u.After) > 0:
		remarks = append(remarks, "after success of "+strings.Join(u.After, ", "))
	case u.StartsAt != nil:
		delay := u.StartsAt.Sub(u.ScheduledAt).Round(time.Second)
		remarks = append(remarks, "starts "+delay.String()+" later")
	}
	if u.Clocks != "" {
		remarks = append(remarks, u.Clocks)
	}
	return strings.Join(remarks, "; ")
}

// nextOfJobs prints the next firings of the named job, or of all jobs.
func (c *commandLine) nextOfJobs(names []string, from time.Time, count int, excluded bool) error {
	config, err := c.load()
	if errors.Is(err, fs.ErrNotExist) && len(names) == 1 && resemblesExpression(names[0]) {
		return fmt.Errorf("%w%s", err, scheduleAdvice(names[0]))
	}
	if err != nil {
		return err
	}
	selected := config.Jobs
	if len(names) == 1 {
		i := slices.IndexFunc(config.Jobs, func(j configs.Job) bool { return j.Name == names[0] })
		if i < 0 {
			return fmt.Errorf("job %q: not found in %s%s", names[0], c.configPath,
				jobAdvice(names[0], jobNames(config)))
		}
		selected = config.Jobs[i : i+1]
	}
	table := explain.TableOf(app.Jobs(config)).Job
	firings := firingsOfAll(selected, table, from, count, excluded)
	rows := make([][]string, len(firings))
	for i, f := range firings {
		rows[i] = []string{localTime(f.ScheduledAt), f.ScheduledAt.UTC().Format(time.RFC3339),
			f.Job, f.remark()}
	}
	return c.print(firings, "SCHEDULED\tUTC\tJOB\tREMARK", rows)
}

// isExpression reports whether a text is a schedule expression.
func isExpression(text string) bool {
	_, err := schedule.ParseText(text, time.UTC)
	return err == nil
}

// resemblesExpression reports whether a text is a schedule expression, or looks like one with a
// mistake. A job can have such a name too.
func resemblesExpression(text string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
	return isExpression(text) || strings.ContainsAny(text, " *?") ||
		slices.ContainsFunc([]string{"@", "every:", "at:", "quartz:"}, begins)
}

// jobAdvice is the end of the error for an unknown job. A similar name of a job comes before an
// expression with a mistake.
func jobAdvice(text string, names []string) string {
	hint := suggest.Hint(text, names)
	if isExpression(text) || resemblesExpression(text) && suggest.Of(text, names) == "" {
		return scheduleAdvice(text)
	}
	return hint
}

// scheduleAdvice is the end of the error for an expression in the place of a job.
func scheduleAdvice(expression string) string {
	return fmt.Sprintf("; for a schedule expression, use --schedule %q", expression)
}

// firingsOfAll returns the first firings of jobs after from, in order of time. It holds at most
// about 2*count firings, and those between them that calendars exclude.
func firingsOfAll(
	selected []configs.Job, table func(string) (jobs.Job, bool), from time.Time, count int,
	excluded bool,
) []upcomingFiring {
	firings := []upcomingFiring{}
	for _, job := range selected {
		firings = append(firings, firingsOf(job, table, from, count, excluded)...)
		slices.SortFunc(firings, func(a, b upcomingFiring) int {
			return cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), strings.Compare(a.Job, b.Job))
		})
		// The result includes excluded firings up to the firing count+1, so keep that one too.
		firings = firstFirings(firings, count+1)
	}
	return firstFirings(firings, count)
}

// firingsOf returns the first firings of a job after from.
func firingsOf(
	job configs.Job, table func(string) (jobs.Job, bool), from time.Time, count int, excluded bool,
) []upcomingFiring {
	if len(job.Schedule.After()) > 0 {
		return dependentFirings(job, table, from, count)
	}
	var firings []upcomingFiring
	for _, o := range job.Schedule.Preview(from, count, excluded) {
		firing := upcomingFiring{Job: job.Name, ScheduledAt: o.ScheduledAt.In(job.Schedule.Zone()),
			ExcludedBy: o.ExcludedBy, Clocks: o.Change}
		if job.Schedule.MaxDelay() > 0 && o.ExcludedBy == "" {
			start := firing.ScheduledAt.Add(job.Schedule.Delay(job.Name, o.ScheduledAt))
			firing.StartsAt = &start
		}
		firings = append(firings, firing)
	}
	return firings
}

// dependentFirings returns the first firings after from of a job that runs after others.
func dependentFirings(
	job configs.Job, table func(string) (jobs.Job, bool), from time.Time, count int,
) []upcomingFiring {
	dependent, _ := table(job.Name)
	var firings []upcomingFiring
	for len(firings) < count {
		from = explain.NextScheduledAt(table, dependent, from)
		if from.IsZero() {
			break
		}
		firings = append(firings, upcomingFiring{Job: job.Name,
			ScheduledAt: from.In(job.Schedule.Zone()), After: job.Schedule.After()})
	}
	return firings
}

// jobNames returns the names of the configured jobs.
func jobNames(config *configs.Config) []string {
	names := make([]string, len(config.Jobs))
	for i, j := range config.Jobs {
		names[i] = j.Name
	}
	return names
}

// firstFirings returns the firings before the one that exceeds n. Excluded firings do not count.
func firstFirings(firings []upcomingFiring, n int) []upcomingFiring {
	for i, firing := range firings {
		if firing.ExcludedBy != "" {
			continue
		}
		if n == 0 {
			return firings[:i]
		}
		n--
	}
	return firings
}
