package cli

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
)

// drainCommand returns the command "drain".
func (c *commandLine) drainCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use: "drain REPLICA", Short: "Stop a replica from starting runs", Args: cobra.ExactArgs(1),
		Long: `Stop a replica from starting runs. REPLICA is its name or the id of its session. Its
running runs continue to their end. Other replicas take over its waiting runs. The
replica reports that it is not ready. The drain lasts until "scheduler undrain" or
until the replica restarts.`,
		Example: `  scheduler drain web-2 --reason "kernel update"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		return a.drain(ctx, args[0], true)
	}), liveReplicasIn(false))
}

// drainedReplica is the result of a drain or undrain for one session.
type drainedReplica struct {
	Replica  string    `json:"replica"`
	Session  uuid.UUID `json:"session"`
	Draining bool      `json:"draining"`
	Running  int       `json:"running"`
}

// drain drains or undrains the live sessions of a replica.
func (a *actionLine) drain(ctx context.Context, name string, draining bool) error {
	return a.withCluster(ctx, func(in cluster) error {
		sessions, err := liveSessions(ctx, in, name)
		if err != nil {
			return err
		}
		done, rows := []drainedReplica{}, [][]string{}
		for _, r := range sessions {
			if err := in.Drain(ctx, a.reason, r.Session, draining); err != nil {
				return err
			}
			done = append(done, drainedReplica{r.Name, r.Session, draining, r.Running})
			rows = append(rows, []string{r.Name, r.Session.String(), fmt.Sprint(draining),
				fmt.Sprint(r.Running)})
		}
		return a.print(done, "REPLICA\tSESSION\tDRAINING\tRUNNING", rows)
	})
}

// liveSessions returns the live sessions of a replica. Name is the name of the replica or the id
// of a session.
func liveSessions(ctx context.Context, in cluster, name string) ([]admin.Replica, error) {
	all, err := in.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var live []admin.Replica
	for _, r := range all {
		if r.EndedAt == nil && (r.Name == name || r.Session.String() == name) {
			live = append(live, r)
		}
	}
	if len(live) == 0 {
		return nil, fmt.Errorf("replica %q: no live replica has this name or session id%s", name,
			hintIn(ctx, in, name, replicasIn))
	}
	return live, nil
}
