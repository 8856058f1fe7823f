package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// maxNext is the most firings that next prints.
const maxNext = 100_000

func (c *commandLine) nextCommand() *cobra.Command {
	var expression, zone, from string
	var count int
	cmd := &cobra.Command{
		Use: "next [JOB]", Short: "Preview firings of the configured jobs, of one job, or of an expression",
		Long: `Preview firings. Without arguments: of all jobs of the configuration, in time order. With a job's name: of that job.
With --schedule: of an expression that need not be in any configuration, as an array of instants.`,
		Example: `  scheduler next -n 20
  scheduler next rollup-sales
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
				return c.nextOfExpression(expression, zone, start, count)
			}
			if cmd.Flags().Changed("timezone") {
				return errors.New("--timezone goes with --schedule: a job has its own")
			}
			return c.nextOfJobs(args, start, count)
		},
	}
	cmd.Flags().StringVar(&expression, "schedule", "", "an `expression`: cron, @daily, @every 90s, every:90s, at:2026-01-31T09:00:00Z")
	cmd.Flags().StringVar(&zone, "timezone", "UTC", "the `zone` in which --schedule is read")
	cmd.Flags().StringVar(&from, "from", "", "the `instant` after which to begin, as in 2026-01-31T09:00:00Z (default now)")
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
		return fmt.Errorf("--timezone: unknown zone %q, expected a name such as Europe/Berlin", zone)
	}
	s, err := schedule.ParseText(expression, location)
	if err != nil {
		return err
	}
	dues := []string{}
	var rows [][]string
	for _, due := range s.Upcoming(from, count) {
		dues = append(dues, due.In(location).Format(time.RFC3339))
		rows = append(rows, []string{due.In(location).Format("Mon 2006-01-02 15:04:05 MST"), due.UTC().Format(time.RFC3339)})
	}
	return c.print(dues, "DUE\tUTC", rows)
}

// upcomingDue is one firing as next shows it.
type upcomingDue struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

func (c *commandLine) nextOfJobs(names []string, from time.Time, count int) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	selected := config.Jobs
	if len(names) == 1 {
		i := slices.IndexFunc(config.Jobs, func(j configs.Job) bool { return j.Name == names[0] })
		if i < 0 {
			return fmt.Errorf("no job is called %q in %s", names[0], c.configPath)
		}
		selected = config.Jobs[i : i+1]
	}
	dues := []upcomingDue{}
	for _, job := range selected {
		for _, due := range job.Schedule.Upcoming(from, count) {
			dues = append(dues, upcomingDue{Job: job.Name, Due: due.In(job.Schedule.Zone())})
		}
	}
	slices.SortStableFunc(dues, func(a, b upcomingDue) int {
		if d := a.Due.Compare(b.Due); d != 0 {
			return d
		}
		return strings.Compare(a.Job, b.Job)
	})
	dues = dues[:min(count, len(dues))]
	rows := make([][]string, len(dues))
	for i, d := range dues {
		rows[i] = []string{d.Due.Format("Mon 2006-01-02 15:04:05 MST"), d.Due.UTC().Format(time.RFC3339), d.Job}
	}
	return c.print(dues, "DUE\tUTC\tJOB", rows)
}
