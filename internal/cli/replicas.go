package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
)

// replicasCommand returns the command "replicas".
func (c *commandLine) replicasCommand() *cobra.Command {
	return remotely(&cobra.Command{
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
	case r.Live() && r.Draining:
		return "draining"
	case r.Live():
		return r.NotReady
	case r.EndedAt != nil:
		return "ended " + clock(r.EndedAt)
	}
	return ""
}
