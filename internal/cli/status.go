package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// unknownStatus is the exit code of the command "status" if it could not read the status. It is
// that of plug-ins of Nagios, as are those of the severities.
const unknownStatus = 3

// statusCommand returns the command "status".
func (c *commandLine) statusCommand() *cobra.Command {
	return failsWith(remotely(&cobra.Command{
		Use: "status", Short: "Show the status of the cluster on one screen", Args: cobra.NoArgs,
		Long: `Show the status of the cluster on one screen: its problems by the same rules as the
page, active pauses, the replicas, failing jobs, waiting runs and the next firings of
jobs that are not paused. JSON and YAML have the status and its problems, like
GET /api/v1/status.

The exit code is 0 if the status is neutral, 1 if it is amber, 2 if it is red, and
3 if the command could not read the status. It is also 3 if the status has a
severity that this release of the command does not know.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := c.readOverview(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.printStatus(o); err != nil {
				return err
			}
			switch code := o.Status.Severity.Rank(); {
			case code < 0: // a later version may have other severities
				return &ExitError{Code: unknownStatus}
			case code > 0:
				return &ExitError{Code: code}
			}
			return nil
		},
	}), unknownStatus)
}

// readOverview returns the state of the cluster. A store that does not answer is a part of it.
func (c *commandLine) readOverview(ctx context.Context) (o admin.Overview, err error) {
	err = c.withCluster(ctx, func(in cluster) (err error) {
		o, err = in.Overview(ctx)
		return err
	})
	if c.server != "" || !errors.Is(err, storage.ErrUnavailable) {
		return o, err
	}
	config, loadErr := c.load()
	if loadErr != nil {
		return o, loadErr
	}
	var backend *app.LockBackend
	if config.Locking.Memcached != nil {
		var backendErr error
		if backend, backendErr = app.NewLockBackend(config, zerolog.Nop()); backendErr != nil {
			return o, backendErr
		}
		defer backend.Close() //nolint:errcheck // no lock depends on these connections
		backend.CheckLocks(ctx)
	}
	status := app.StatusOptions(config, nil, nil, backend)
	return admin.UnreachableOverview(ctx, admin.Options{StoreName: status.StoreName,
		Rules: status.Rules, Memcached: status.Memcached}, err), nil
}

// shownOfStatus is the most entries of each list of the status.
const shownOfStatus = 5

// printStatus writes the status as JSON or YAML, or on one screen.
func (c *commandLine) printStatus(o admin.Overview) error {
	v := o.Status
	if c.format.structured() {
		return c.print(v, "", nil)
	}
	parts := make([]string, len(v.Parts))
	for i, p := range v.Parts {
		parts[i] = p.Name + ": " + p.Text
	}
	_, err := fmt.Fprintf(c.out, "%s: %s\n%s\n",
		printable(strings.ToUpper(string(v.Severity))), printable(v.Headline),
		printable(strings.Join(parts, ", ")))
	if err != nil {
		return err
	}
	problems := make([][]string, len(v.Problems))
	for i, p := range v.Problems {
		problems[i] = []string{string(p.Severity), orMore(age(v.Now, p.Since), p.AtLeast), p.Text}
	}
	for _, list := range []statusList{
		{"problem", "problems", "SEVERITY\tFOR\tPROBLEM", problems, 0},
		{"pause", "pauses", "PAUSED\tFOR\tBY\t…REASON", pauseRows(o), shownOfStatus},
		{"replica", "replicas", replicaHeader, replicaRows(endedLast(o.Replicas)),
			2 * shownOfStatus},
		{"failing job", "failing jobs", "FAILING JOB\tFAILURES\tFOR\t…ERROR", failingRows(o),
			shownOfStatus},
		{"waiting run", "waiting runs", "WAITING JOB\tRUN\tFOR\tWAITS UNTIL\t…WHY",
			waitingRows(o), shownOfStatus},
		{"firing", "firings", "NEXT\tIN\tJOB", nextRows(o), shownOfStatus},
	} {
		if err := c.printList(list); err != nil {
			return err
		}
	}
	return nil
}

// statusList is a list of the status.
type statusList struct {
	one, many string // what a row is
	header    string
	rows      [][]string
	most      int // rows that are written; 0: all
}

// printList writes a list, unless it is empty.
func (c *commandLine) printList(l statusList) error {
	if len(l.rows) == 0 {
		return nil
	}
	shown := l.rows
	if l.most > 0 {
		shown = l.rows[:min(l.most, len(l.rows))]
	}
	if _, err := fmt.Fprintln(c.out); err != nil {
		return err
	}
	if err := c.table(l.header, shown); err != nil {
		return err
	}
	if more := len(l.rows) - len(shown); more > 0 {
		_, err := fmt.Fprintf(c.out, "and %s\n", plural.Of(more, "more "+l.one, "more "+l.many))
		return err
	}
	return nil
}

// endedLast returns live replicas before those that ended.
func endedLast(list []admin.Replica) []admin.Replica {
	list = slices.Clone(list)
	rank := func(r admin.Replica) int {
		if r.Live() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b admin.Replica) int { return rank(a) - rank(b) })
	return list
}

// orMore returns a number or a duration, which may be a lower bound.
func orMore(figure string, atLeast bool) string {
	if atLeast {
		return figure + " or more"
	}
	return figure
}

func pauseRows(o admin.Overview) (rows [][]string) {
	for _, p := range o.Pauses {
		rows = append(rows, []string{p.Target.String(), age(o.Now, &p.At), p.By, p.Reason})
	}
	return rows
}

func failingRows(o admin.Overview) (rows [][]string) {
	for _, group := range o.Failing {
		for _, j := range group.Jobs {
			rows = append(rows, []string{j.Job, orMore(fmt.Sprint(j.Failures), j.AtLeast),
				orMore(age(o.Now, &j.Since), j.AtLeast), group.Error})
		}
	}
	return rows
}

func waitingRows(o admin.Overview) (rows [][]string) {
	for _, r := range o.Waiting {
		rows = append(rows, []string{r.Job, r.ID.String(), age(o.Now, &r.WaitSince), waitsUntil(r),
			why(r)})
	}
	return rows
}

func nextRows(o admin.Overview) (rows [][]string) {
	for _, f := range o.Next {
		in := f.ScheduledAt.Sub(o.Now).Round(time.Second)
		rows = append(rows, []string{clock(&f.ScheduledAt), in.String(), f.Job})
	}
	return rows
}
