package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// explainCommand returns the command "explain".
func (c *commandLine) explainCommand() *cobra.Command {
	return c.completes(remotely(&cobra.Command{
		Use:   "explain JOB SCHEDULED_TIME",
		Short: "Explain why a job ran, was skipped or was missed at a scheduled time",
		Long: `Explain what happened to a job at a scheduled time. The first line is the answer.
The table below it has the facts.

SCHEDULED_TIME is a time such as 2026-03-29T02:30:00Z, a local time in the job's time
zone such as "2026-03-29 02:30" or "yesterday 02:30", now, or a duration such as -2h.
Write -- before a duration that begins with a hyphen. When clocks go back, a local time occurs
twice: the command takes the occurrence that the schedule contains, or else the
first. When clocks go forward, some local times do not exist: the command takes the
first time after the gap.`,
		Example: `  scheduler explain rollup-sales "2026-03-29 02:30"
  scheduler explain rollup-sales yesterday 02:30
  scheduler explain rollup-sales 2026-03-29T00:30:00Z -o json
  scheduler explain -- rollup-sales -2h`,
		Args: cobra.RangeArgs(2, 3), // three without quotes around date and time
		RunE: func(cmd *cobra.Command, args []string) error {
			at := strings.Join(args[1:], " ")
			if _, err := schedule.ParseTime(at, time.UTC, time.Now()); err != nil {
				return err
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				e, err := in.Explain(cmd.Context(), args[0], at)
				if err != nil {
					return err
				}
				return c.print(e, printable(e.Summary), explanationRows(e))
			})
		},
	}), jobsIn)
}

// explanationRows returns the facts of an explanation, without empty fields.
func explanationRows(e explain.Explanation) [][]string {
	zone, err := time.LoadLocation(e.Timezone)
	if err != nil {
		zone = time.UTC
	}
	both := func(t time.Time) string {
		return localTime(t.In(zone)) + "  " + t.UTC().Format(time.RFC3339)
	}
	rows := [][]string{{"verdict", string(e.Verdict)}, {"scheduled", both(e.At)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	for _, at := range []struct {
		name string
		t    *time.Time
	}{{"starts", e.StartsAt}, {"scheduled before", e.ScheduledBefore},
		{"scheduled after", e.ScheduledAfter}} {
		if at.t != nil {
			add(at.name, both(*at.t))
		}
	}
	add("schedule", e.Schedule)
	add("clocks", e.Clocks)
	add("excluded by", e.ExcludedBy)
	for _, p := range e.Pauses {
		add("paused", fmt.Sprintf("%s by %s from %s until %s %s", p.Target, p.By, clock(&p.At),
			clock(p.ResumedAt), p.Reason))
	}
	for _, f := range e.After {
		add("after", fmt.Sprintf("%s: %s", f.Job, f.Summary))
	}
	for _, r := range e.Runs {
		add("run", fmt.Sprintf("%s %s on %s, token %d, recovery %d, attempt %d %s", r.ID, r.State,
			r.Replica, r.Token, r.Recovery, r.Attempt, why(r)))
	}
	for _, r := range e.ManualRuns {
		label := "triggered"
		if r.Backfill != uuid.Nil {
			label = "backfill"
		}
		add(label, fmt.Sprintf("%s %s, key %s, at %s", r.ID, r.State, r.Key, clock(&r.CreatedAt)))
	}
	for _, note := range e.Notes {
		add("note", note)
	}
	return rows
}
