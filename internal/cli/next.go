package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxNext is the most firings that next prints.
const maxNext = 100_000

func (c *commandLine) nextCommand() *cobra.Command {
	var expression, zone, from string
	var count int
	var excluded bool
	cmd := &cobra.Command{
		Use: "next [JOB]", Short: "Preview firings of the configured jobs, of one job, or of an " +
			"expression",
		Long: `Preview firings. Without arguments: of all jobs of the configuration, in time order. With a job's name: of that job.
With --schedule: of an expression that need not be in any configuration, as an array of instants.
The last column says where a change of clocks bears on a firing, and with --excluded which calendar keeps it from being run.`,
		Example: `  scheduler next -n 20
  scheduler next rollup-sales --excluded
  scheduler next --schedule "quartz:0 0 12 LW * ?" --timezone Europe/Berlin
  scheduler next --schedule "*/5 9-17 * * mon-fri" --timezone Europe/Berlin -n 50 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > maxNext {
				return fmt.Errorf("-n: expected 1 to %d, found %d", maxNext, count)
			}
			start, err := instant(from)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			if cmd.Flags().Changed("schedule") {
				if len(args) > 0 {
					return errors.New("expected a job or --schedule, found both")
				}
				if excluded {
					return errors.New("--excluded goes with jobs: an expression has no calendars")
				}
				return c.nextOfExpression(expression, zone, start, count)
			}
			if cmd.Flags().Changed("timezone") {
				return errors.New("--timezone goes with --schedule: a job has its own")
			}
			return c.nextOfJobs(args, start, count, excluded)
		},
	}
	cmd.Flags().StringVar(&expression, "schedule", "", "an `expression`: cron, @daily, "+
		"\"quartz:0 0 12 L * ?\", every:90s, \"every 1 month at 02:30\", at:2026-01-31T09:00:00Z")
	cmd.Flags().StringVar(&zone, "timezone", "UTC", "the `zone` in which --schedule is read")
	cmd.Flags().StringVar(&from, "from", "",
		"the `instant` after which to begin, as in 2026-01-31T09:00:00Z (default now)")
	cmd.Flags().BoolVar(&excluded, "excluded", false,
		"show also what calendars exclude; it does not count")
	cmd.Flags().IntVarP(&count, "count", "n", 10, "how many firings")
	return cmd
}

func instant(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("expected an instant such as 2026-01-31T09:00:00Z, found %q", text)
	}
	return at, nil
}

func (c *commandLine) nextOfExpression(expression, zone string, from time.Time, count int) error {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return fmt.Errorf("--timezone: unknown zone %q, expected a name such as Europe/Berlin",
			zone)
	}
	s, err := schedule.ParseText(expression, location)
	if err != nil {
		return err
	}
	scheduledTimes := []string{}
	var rows [][]string
	for _, o := range s.Preview(from, count, false) {
		scheduledTimes = append(scheduledTimes, o.ScheduledAt.In(location).Format(time.RFC3339))
		rows = append(rows, []string{shownScheduledAt(o.ScheduledAt.In(location)),
			o.ScheduledAt.Format(time.RFC3339), o.Change})
	}
	return c.print(scheduledTimes, "SCHEDULED\tUTC\tCLOCKS", rows)
}

// upcomingFiring is one firing as next shows it.
type upcomingFiring struct {
	Job         string    `json:"job"`
	ScheduledAt time.Time `json:"scheduled_at"`
	ExcludedBy  string    `json:"excluded_by,omitempty"` // a calendar: it is not run
	Clocks      string    `json:"clocks,omitempty"`      // how a change of clocks bears on it
	// StartsAt is later than Due by the job's jitter; nil where it has none.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// the jobs that must have succeeded for the scheduled time
	After []string `json:"after,omitempty"`
}

func (u upcomingFiring) remark() string {
	var remarks []string
	switch {
	case u.ExcludedBy != "":
		remarks = append(remarks, "excluded by "+u.ExcludedBy)
	case len(u.After) > 0:
		remarks = append(remarks, "when "+strings.Join(u.After, ", ")+" succeeded")
	case u.StartsAt != nil:
		remarks = append(remarks, "starts "+u.StartsAt.Sub(u.ScheduledAt).Round(time.Second).
			String()+" later")
	}
	if u.Clocks != "" {
		remarks = append(remarks, u.Clocks)
	}
	return strings.Join(remarks, "; ")
}

func (c *commandLine) nextOfJobs(names []string, from time.Time, count int, excluded bool) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	selected := config.Jobs
	if len(names) == 1 {
		i := slices.IndexFunc(config.Jobs, func(j configs.Job) bool { return j.Name == names[0] })
		if i < 0 {
			return fmt.Errorf("no job is called %q in %s%s", names[0], c.configPath,
				suggest.Hint(names[0], jobNames(config)))
		}
		selected = config.Jobs[i : i+1]
	}
	all := app.Jobs(config)
	table, _ := jobs.TableOf(all)
	var scheduledTimes []upcomingFiring
	for _, job := range selected {
		scheduledTimes = append(scheduledTimes, previewOf(job, table, from, count, excluded)...)
	}
	slices.SortStableFunc(scheduledTimes, func(a, b upcomingFiring) int {
		if d := a.ScheduledAt.Compare(b.ScheduledAt); d != 0 {
			return d
		}
		return strings.Compare(a.Job, b.Job)
	})
	scheduledTimes = firstFirings(scheduledTimes, count)
	rows := make([][]string, len(scheduledTimes))
	for i, d := range scheduledTimes {
		rows[i] = []string{shownScheduledAt(d.ScheduledAt),
			d.ScheduledAt.UTC().Format(time.RFC3339), d.Job, d.remark()}
	}
	return c.print(scheduledTimes, "SCHEDULED\tUTC\tJOB\tREMARK", rows)
}

// previewOf returns the first scheduled times of a job after from.
func previewOf(job configs.Job, table func(string) (jobs.Job, bool), from time.Time, count int,
	excluded bool) []upcomingFiring {
	var scheduledTimes []upcomingFiring
	zone := job.Schedule.Zone()
	if after := job.Schedule.After(); len(after) > 0 {
		of, _ := table(job.Name)
		for scheduledAt := jobs.NextScheduledAt(table, of, from); !scheduledAt.IsZero() &&
			len(scheduledTimes) < count; scheduledAt = jobs.NextScheduledAt(table, of,
			scheduledAt) {
			scheduledTimes = append(scheduledTimes,
				upcomingFiring{Job: job.Name, ScheduledAt: scheduledAt.In(zone), After: after})
		}
		return scheduledTimes
	}
	for _, o := range job.Schedule.Preview(from, count, excluded) {
		scheduledAt := upcomingFiring{Job: job.Name, ScheduledAt: o.ScheduledAt.In(zone),
			ExcludedBy: o.ExcludedBy, Clocks: o.Change}
		if job.Schedule.MaxDelay() > 0 && o.ExcludedBy == "" {
			start := scheduledAt.ScheduledAt.Add(job.Schedule.Delay(job.Name, o.ScheduledAt))
			scheduledAt.StartsAt = &start
		}
		scheduledTimes = append(scheduledTimes, scheduledAt)
	}
	return scheduledTimes
}

func jobNames(config *configs.Config) []string {
	names := make([]string, len(config.Jobs))
	for i, j := range config.Jobs {
		names[i] = j.Name
	}
	return names
}

// firstFirings returns scheduled times up to the nth that is run.
func firstFirings(scheduledTimes []upcomingFiring, n int) []upcomingFiring {
	first := []upcomingFiring{}
	for _, scheduledAt := range scheduledTimes {
		if scheduledAt.ExcludedBy == "" {
			if n == 0 {
				break
			}
			n--
		}
		first = append(first, scheduledAt)
	}
	return first
}
