package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pruneAgain is the time after which the command asks again whether a replica has stopped pruning.
const pruneAgain = time.Second

// prunedRows counts what the command deleted.
type prunedRows struct {
	Runs        int `json:"runs"`
	Audited     int `json:"audit_entries"`
	Pauses      int `json:"pauses"`
	Definitions int `json:"definitions"`
}

func (p prunedRows) text() string {
	return fmt.Sprintf("deleted %s, %s, %s and %s", plural.Of(p.Runs, "run", "runs"),
		plural.Of(p.Audited, "audit entry", "audit entries"),
		plural.Of(p.Pauses, "pause", "pauses"),
		plural.Of(p.Definitions, "definition", "definitions"))
}

// pruneCommand returns the command "prune".
func (c *commandLine) pruneCommand() *cobra.Command {
	return &cobra.Command{
		Use: "prune", Short: "Delete history that is older than history.keep", Args: cobra.NoArgs,
		Long: `Delete runs, audit entries and ended pauses that are older than history.keep of the
configuration, and runs of triggers that are older than history.keep_triggered.

Replicas do the same each minute, usually for at most a fifth of the time. The command
does not rest, so it deletes a long history faster, for example after history.keep was
reduced.
It waits while a replica prunes. You can interrupt it. With SQLite, only the process
that runs the jobs prunes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(config *configs.Config,
				store app.Storage) error {
				pruned, err := c.prune(cmd.Context(), store, config.History)
				if err != nil {
					return err
				}
				return c.print(pruned, pruned.text(), nil)
			})
		},
	}
}

// pruner is the part of a store that deletes history.
type pruner interface {
	Prune(ctx context.Context, session uuid.UUID, r storage.PruneRequest) (storage.Pruned, error)
}

// prune deletes all history that is old by now.
func (c *commandLine) prune(ctx context.Context, store pruner,
	h configs.History) (all prunedRows, err error) {
	bar := c.progress("deleting old runs", 0)
	defer bar.end()
	session := uuid.New() // takes turns with the sessions of replicas
	for _, request := range storage.PruneRequests(h.Keep, h.KeepTriggered, storage.MaxBatch) {
		for more := true; more; {
			pruned, err := store.Prune(ctx, session, request)
			if errors.Is(err, sqlite.ErrNotExclusive) {
				return all, errors.New("prune history: with SQLite, only the process that runs " +
					"the jobs can delete history, and it does so each minute")
			}
			if err != nil {
				return all, fmt.Errorf("prune history: %w", err)
			}
			if pruned.Busy {
				if sleep.For(ctx, pruneAgain); ctx.Err() != nil {
					return all, fmt.Errorf("wait for a replica that prunes: %w", context.Cause(ctx))
				}
				continue
			}
			all.Runs += pruned.Runs
			all.Audited += pruned.Audited
			all.Pauses += pruned.Pauses
			all.Definitions += pruned.Definitions
			bar.set(all.Runs)
			request, more = request.Rest(pruned)
		}
	}
	return all, nil
}
