package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/fence"
)

// fenceCommand returns the command "fence".
func (c *commandLine) fenceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "fence",
		Short: "Create the tables of the fence in another database"}
	cmd.AddCommand(c.fenceInstallCommand(), c.fencePrintCommand())
	return cmd
}

// fenceInstallCommand returns the command "fence install".
func (c *commandLine) fenceInstallCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "install", Short: "Create the tables in a database of the configuration",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.installFence(cmd.Context(), name); err != nil {
				return err
			}
			return c.print(map[string]any{"database": name, "schema": "holdfast_fence"},
				fmt.Sprintf("database %s has the tables of the fence, in the schema "+
					"holdfast_fence", name), nil)
		},
	}
	cmd.Flags().StringVar(&name, "database", "", "`name` of the database, in the section databases")
	if err := cmd.MarkFlagRequired("database"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (c *commandLine) installFence(ctx context.Context, name string) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	database, err := app.OpenJobDatabase(ctx, config, name, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	if err := database.InstallFence(ctx); err != nil {
		return fmt.Errorf("database %s: %w", name, err)
	}
	return database.Close()
}

// fencePrintCommand returns the command "fence print".
func (c *commandLine) fencePrintCommand() *cobra.Command {
	var names []string
	for _, d := range fence.Dialects() {
		names = append(names, d.Name())
	}
	var dialect string
	cmd := &cobra.Command{
		Use: "print", Short: "Print the SQL that creates the tables", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := fence.DialectNamed(dialect)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"dialect": dialect, "sql": d.SQL()},
				strings.TrimSuffix(d.SQL(), "\n"), nil)
		},
	}
	cmd.Flags().StringVar(&dialect, "dialect", "postgres",
		"`dialect` of the database: "+strings.Join(names, ", "))
	return cmd
}
