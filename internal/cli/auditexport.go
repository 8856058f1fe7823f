package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditExportCommand returns the command "audit export".
func (c *commandLine) auditExportCommand() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit log as JSON lines, oldest first",
		Long: `Write the audit log as JSON, one entry a line, oldest first.

An entry appears when its transaction commits. A trigger in a transaction of a
program can commit later than entries with a later time. If you export
repeatedly, let the times overlap, and drop entries whose id you have already.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter := storage.AuditFilter{OldestFirst: true, Limit: storage.MaxBatch}
			for _, flag := range []struct {
				name, text string
				at         *time.Time
			}{{"since", since, &filter.Since}, {"until", until, &filter.Until}} {
				if flag.text == "" {
					continue
				}
				var err error
				if *flag.at, err = time.Parse(time.RFC3339, flag.text); err != nil {
					return fmt.Errorf("--%s: expected a time such as 2026-11-01T00:00:00Z, "+
						"found %q", flag.name, flag.text)
				}
			}
			return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
				return exportAudit(cmd.Context(), c.out, store, filter)
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only entries of this `time` and later")
	cmd.Flags().StringVar(&until, "until", "", "only entries before this `time`")
	return cmd
}

// exportAudit writes the entries in pages of at most filter.Limit.
func exportAudit(ctx context.Context, out io.Writer, store app.Storage,
	filter storage.AuditFilter) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		page, err := store.Audit(ctx, filter)
		if err != nil {
			return err
		}
		for _, entry := range page {
			if err := encoder.Encode(entry); err != nil {
				return fmt.Errorf("write audit log: %w", err)
			}
		}
		if len(page) < filter.Limit {
			return nil
		}
		last := page[len(page)-1]
		filter.After = &storage.RunCursor{CreatedAt: last.At, ID: last.ID}
		filter.Since = time.Time{} // the cursor is later
	}
}
