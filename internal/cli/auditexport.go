package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditExportCommand returns the command "audit export".
func (c *commandLine) auditExportCommand() *cobra.Command {
	cmd := remotely(&cobra.Command{
		Use:   "export",
		Short: "Write the audit log as JSON lines, oldest first",
		Long: `Write the audit log as JSON, one entry a line, oldest first.

An entry appears when its transaction commits. A trigger in a transaction of a
program can commit later than entries with a later time. If you export
repeatedly, let the times overlap, and drop entries whose id you have already.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.format == yamlFormat || c.format == wideFormat {
				return fmt.Errorf("-o %s: expected json, because each line of the output is an "+
					"entry as JSON", c.format)
			}
			filter := storage.AuditFilter{Limit: storage.MaxBatch}
			if filter.Since, err = timeFlag(cmd, "since"); err != nil {
				return err
			}
			if filter.Until, err = timeFlag(cmd, "until"); err != nil {
				return err
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				return in.ExportAudit(cmd.Context(), filter, writeAudit(c.out))
			})
		},
	})
	cmd.Flags().String("since", "",
		"only entries of this `time` and later, such as 2026-11-01T00:00:00Z or -7d")
	cmd.Flags().String("until", "", "only entries before this `time`")
	return cmd
}

// writeAudit returns a function that writes entries as JSON, one a line.
func writeAudit(out io.Writer) func([]storage.Audited) error {
	return func(page []storage.Audited) error {
		var lines bytes.Buffer
		encoder := json.NewEncoder(&lines)
		encoder.SetEscapeHTML(false)
		for _, entry := range page {
			if err := encoder.Encode(entry); err != nil {
				return fmt.Errorf("write audit log: %w", err)
			}
		}
		if _, err := out.Write(escapeJSON(lines.Bytes())); err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
		return nil
	}
}
