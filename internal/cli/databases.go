package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
)

// databasesCommand returns the command "databases".
func (c *commandLine) databasesCommand() *cobra.Command {
	return remotely(&cobra.Command{
		Use: "databases", Short: "List the databases in which jobs have their tables",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Databases(cmd.Context())
				if err != nil {
					return err
				}
				return c.print(list, databaseHeader, databaseRows(list))
			})
		},
	})
}

// databaseHeader is the header of a table of databases.
const databaseHeader = "DATABASE\tREPLICA\tSTATE\tSINCE\t…ERROR"

// databaseRows returns a row for each database and replica under databaseHeader.
func databaseRows(list []admin.Database) [][]string {
	rows := [][]string{}
	for _, d := range list {
		for _, v := range d.Replicas {
			state, since := "not available", "-"
			if v.Available {
				state = "available"
			}
			if !v.Since.IsZero() {
				since = clock(&v.Since)
			}
			rows = append(rows, []string{d.Name, v.Replica, state, since, v.Error})
		}
	}
	return rows
}
