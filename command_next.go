package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/nearest"
)

// maxNext is the most firings that next prints.
const maxNext = 100_000

func (c *commandLine) nextCommand() *cobra.Command {
	var expression, zone, from string
	var count int
	var excluded bool
	cmd := &cobra.Command{
		Use: "next [JOB]", Short: "Preview firings of the configured jobs, of one job, or of an expression",
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
	cmd.Flags().StringVar(&expression, "schedule", "", "an `expression`: cron, @daily, \"quartz:0 0 12 L * ?\", every:90s, \"every 1 month at 02:30\", at:2026-01-31T09:00:00Z")
	cmd.Flags().StringVar(&zone, "timezone", "UTC", "the `zone` in which --schedule is read")
	cmd.Flags().StringVar(&from, "from", "", "the `instant` after which to begin, as in 2026-01-31T09:00:00Z (default now)")
	cmd.Flags().BoolVar(&excluded, "excluded", false, "show also what calendars exclude; it does not count")
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
	for _, o := range s.Preview(from, count, false) {
		dues = append(dues, o.Due.In(location).Format(time.RFC3339))
		rows = append(rows, []string{shownDue(o.Due.In(location)), o.Due.Format(time.RFC3339), o.Change})
	}
	return c.print(dues, "DUE\tUTC\tCLOCKS", rows)
}

func shownDue(due time.Time) string { return due.Format("Mon 2006-01-02 15:04:05 MST") }

// upcomingDue is one firing as next shows it.
type upcomingDue struct {
	Job        string    `json:"job"`
	Due        time.Time `json:"due"`
	ExcludedBy string    `json:"excluded_by,omitempty"` // a calendar: it is not run
	Clocks     string    `json:"clocks,omitempty"`      // how a change of clocks bears on it
	// StartsAt is later than Due by the job's jitter; nil where it has none.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	After    []string   `json:"after,omitempty"` // the jobs that must have succeeded for the due
}

func (u upcomingDue) remark() string {
	var remarks []string
	switch {
	case u.ExcludedBy != "":
		remarks = append(remarks, "excluded by "+u.ExcludedBy)
	case len(u.After) > 0:
		remarks = append(remarks, "when "+strings.Join(u.After, ", ")+" succeeded")
	case u.StartsAt != nil:
		remarks = append(remarks, "starts "+u.StartsAt.Sub(u.Due).Round(time.Second).String()+" later")
	}
	if u.Clocks != "" {
		remarks = append(remarks, u.Clocks)
	}
	return strings.Join(remarks, "; ")
}

// previewOf returns the first dues of a job after from.
func previewOf(job configs.Job, table func(string) (jobs.Job, bool), from time.Time, count int, excluded bool) []upcomingDue {
	var dues []upcomingDue
	zone := job.Schedule.Zone()
	if after := job.Schedule.After(); len(after) > 0 {
		of, _ := table(job.Name)
		for due := jobs.NextDue(table, of, from); !due.IsZero() && len(dues) < count; due = jobs.NextDue(table, of, due) {
			dues = append(dues, upcomingDue{Job: job.Name, Due: due.In(zone), After: after})
		}
		return dues
	}
	for _, o := range job.Schedule.Preview(from, count, excluded) {
		due := upcomingDue{Job: job.Name, Due: o.Due.In(zone), ExcludedBy: o.ExcludedBy, Clocks: o.Change}
		if job.Schedule.MaxDelay() > 0 && o.ExcludedBy == "" {
			start := due.Due.Add(job.Schedule.Delay(job.Name, o.Due))
			due.StartsAt = &start
		}
		dues = append(dues, due)
	}
	return dues
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
			return fmt.Errorf("no job is called %q in %s%s", names[0], c.configPath, nearest.Hint(names[0], jobNames(config)))
		}
		selected = config.Jobs[i : i+1]
	}
	all, err := jobTable(config)
	if err != nil {
		return err
	}
	table, _ := jobs.TableOf(all)
	var dues []upcomingDue
	for _, job := range selected {
		dues = append(dues, previewOf(job, table, from, count, excluded)...)
	}
	slices.SortStableFunc(dues, func(a, b upcomingDue) int {
		if d := a.Due.Compare(b.Due); d != 0 {
			return d
		}
		return strings.Compare(a.Job, b.Job)
	})
	dues = firstFirings(dues, count)
	rows := make([][]string, len(dues))
	for i, d := range dues {
		rows[i] = []string{shownDue(d.Due), d.Due.UTC().Format(time.RFC3339), d.Job, d.remark()}
	}
	return c.print(dues, "DUE\tUTC\tJOB\tREMARK", rows)
}

func jobNames(config *configs.Config) []string {
	names := make([]string, len(config.Jobs))
	for i, j := range config.Jobs {
		names[i] = j.Name
	}
	return names
}

// firstFirings returns dues up to the nth that is run.
func firstFirings(dues []upcomingDue, n int) []upcomingDue {
	first := []upcomingDue{}
	for _, due := range dues {
		if due.ExcludedBy == "" {
			if n == 0 {
				break
			}
			n--
		}
		first = append(first, due)
	}
	return first
}
