package cli

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) drainCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "drain REPLICA", Short: "Have a replica start nothing more", Args: cobra.ExactArgs(1),
		Long: `Have a replica start nothing more, by its name or the id of its session. What it runs ends by itself; what waits there is taken up
by others; it says that it is not ready. It holds until undrain, or until the replica is started anew.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		return a.drain(ctx, args[0], true)
	})
}

// drainedReplica is what was asked of one session.
type drainedReplica struct {
	Replica  string    `json:"replica"`
	Session  uuid.UUID `json:"session"`
	Draining bool      `json:"draining"`
	Running  int       `json:"running"`
}

func (a *acting) drain(ctx context.Context, name string, draining bool) error {
	return a.withOperations(ctx, func(ops *jobs.Operations, store jobs.Store) error {
		sessions, err := livingSessions(ctx, store, name)
		if err != nil {
			return err
		}
		done, rows := []drainedReplica{}, [][]string{}
		for _, r := range sessions {
			if err := ops.Drain(ctx, a.action(), r.Session, draining); err != nil {
				return err
			}
			done = append(done, drainedReplica{r.Name, r.Session, draining, r.Running})
			rows = append(rows, []string{r.Name, r.Session.String(), fmt.Sprint(draining),
				fmt.Sprint(r.Running)})
		}
		return a.print(done, "REPLICA\tSESSION\tDRAINING\tRUNNING", rows)
	})
}

// livingSessions returns the sessions of a replica, by its name or a session's id.
func livingSessions(ctx context.Context, store jobs.Store,
	name string) ([]jobs.ReplicaView, error) {
	all, err := store.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var living []jobs.ReplicaView
	for _, r := range all {
		if r.EndedAt == nil && (r.Name == name || r.Session.String() == name) {
			living = append(living, r)
		}
	}
	if len(living) == 0 {
		return nil, fmt.Errorf("no living replica is called %q, nor has a session with that id",
			name)
	}
	return living, nil
}
