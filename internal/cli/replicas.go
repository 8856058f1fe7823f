package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
)

// replicasCommand returns the command "replicas".
func (c *commandLine) replicasCommand() *cobra.Command {
	cmd := remotely(&cobra.Command{
		Use: "replicas", Short: "List live replicas and those that ended in the last hour",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Replicas(cmd.Context())
				if err != nil {
					return err
				}
				return c.print(list, replicaHeader, replicaRows(list))
			})
		},
	})
	cmd.AddCommand(c.removeReplicaCommand())
	return cmd
}

// removedReplica is the result of the removal of a lost replica from the list.
type removedReplica struct {
	Replica string    `json:"replica"`
	Session uuid.UUID `json:"session"`
}

// removeReplicaCommand returns the command "replicas remove".
func (c *commandLine) removeReplicaCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use:   "remove REPLICA",
		Short: "Remove a lost replica from the list and the status",
		Long: `Remove a lost replica from the list of replicas and from the status. REPLICA is its
name or the id of its session. Its runs stay in the history. If the replica starts
again, it is listed again.`,
		Example: `  scheduler replicas remove web-2 --reason "scaled down"`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, a *actionLine, args []string) error {
		return a.withCluster(ctx, func(in cluster) error {
			lost, err := lostSession(ctx, in, args[0])
			if err != nil {
				return err
			}
			if err := in.RemoveReplica(ctx, a.reason, lost.Session); err != nil {
				return err
			}
			return a.print(removedReplica{lost.Name, lost.Session}, "REPLICA\tSESSION",
				[][]string{{lost.Name, lost.Session.String()}})
		})
	}), lostReplicasIn)
}

// lostSession returns a lost session of a replica. Name is the name of the replica or the id of a
// session.
func lostSession(ctx context.Context, in cluster, name string) (admin.Replica, error) {
	all, err := in.Replicas(ctx)
	if err != nil {
		return admin.Replica{}, err
	}
	for _, r := range all {
		if r.EndedAt != nil && r.Lost() && (r.Name == name || r.Session.String() == name) {
			return r, nil
		}
	}
	return admin.Replica{}, fmt.Errorf("replica %q: no lost replica has this name or session id%s",
		name, hintIn(ctx, in, name, lostReplicasIn))
}

// replicaHeader is the header of a table of replicas.
const replicaHeader = "REPLICA\tSTATE\tWORKERS\tRUNNING\tHEARTBEAT\tVERSION\t~SESSION\t~STARTED\t" +
	"~CLOCK\t~JOBS\t…NOTE"

// replicaRows returns the rows of replicas under replicaHeader.
func replicaRows(list []admin.Replica) [][]string {
	rows := make([][]string, len(list))
	for i, r := range list {
		workers := "-"
		if r.Live() && r.Workers > 0 {
			workers = fmt.Sprintf("%d of %d", r.Busy, r.Workers)
		}
		offset := "-"
		if r.ClockOffset != nil {
			offset = (time.Duration(*r.ClockOffset) * time.Millisecond).String()
		}
		rows[i] = []string{r.Name, string(r.State), workers, fmt.Sprint(r.Running),
			clock(&r.LastHeartbeat), r.Version, r.Session.String(), clock(&r.StartedAt), offset,
			r.ConfigHash, replicaNote(r)}
	}
	return rows
}

// replicaNote says why a replica starts nothing.
func replicaNote(r admin.Replica) string {
	switch {
	case r.Live() && r.Stopping:
		return "stopping"
	case r.Live() && r.Draining:
		return "draining"
	case r.Live():
		return r.NotReady
	case r.EndedAt != nil:
		return "ended " + clock(r.EndedAt)
	}
	return ""
}
