package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/remote"
	"github.com/holdfast-dev/holdfast/jobs/explain"
)

// serverFlags select a server that commands ask instead of the database.
type serverFlags struct {
	server    string // "": the configured database
	tokenFile string
	plainHTTP bool
}

// Variables of the environment for serverFlags.
const (
	serverVariable = "HOLDFAST_SERVER"
	tokenVariable  = "HOLDFAST_TOKEN"
)

// add defines the flags.
func (f *serverFlags) add(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.server, "server", "",
		"ask the replica at this `URL` instead of the database (default: "+serverVariable+")")
	flags.StringVar(&f.tokenFile, "token-file", "",
		"`file` with the token for --server (default: the token in "+tokenVariable+")")
	flags.BoolVar(&f.plainHTTP, "plain-http", false,
		"send the token to a --server without TLS, where others may read it")
}

// onServer is the annotation of a command that can ask a server.
const onServer = "holdfast/server"

// remotely marks a command as one that can ask a server.
func remotely(cmd *cobra.Command) *cobra.Command {
	return annotated(cmd, onServer, "yes")
}

// annotated sets an annotation of a command.
func annotated(cmd *cobra.Command, name, value string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[name] = value
	return cmd
}

// chooseServer decides whether a command asks a server or the database. A flag takes precedence
// over the environment.
func (c *commandLine) chooseServer(cmd *cobra.Command) error {
	flags := cmd.Flags()
	remote, named := cmd.Annotations[onServer] != "", flags.Changed("server")
	switch {
	case named && !remote:
		return noServer("server", cmd)
	case named && flags.Changed("config"):
		return errors.New("expected --config or --server, found both")
	case named && c.server == "":
		return errors.New("--server: found nothing, expected a URL")
	case !named && remote && !flags.Changed("config"):
		c.server = c.getenv(serverVariable)
	}
	for _, flag := range []string{"token-file", "plain-http"} {
		if flags.Changed(flag) && !remote {
			return noServer(flag, cmd)
		}
	}
	if c.server == "" && (flags.Changed("token-file") || flags.Changed("plain-http")) {
		return errors.New("--token-file and --plain-http: expected --server too, found none")
	}
	return nil
}

// noServer is the error for a flag about servers of a command that asks none.
func noServer(flag string, cmd *cobra.Command) error {
	return fmt.Errorf("--%s: the command %q does not ask a server; run it where the configuration "+
		"is", flag, cmd.CommandPath())
}

// withCluster calls use with the cluster of the chosen server, or with the configured one.
func (c *commandLine) withCluster(ctx context.Context, use func(cluster) error) error {
	if c.server != "" {
		client, err := c.client()
		if err != nil {
			return err
		}
		defer client.Close()
		return use(client)
	}
	return c.withStore(ctx, func(config *configs.Config, store app.Storage) error {
		return c.withLocal(config, store, use)
	})
}

// client returns a client of the chosen server.
func (c *commandLine) client() (*remote.Client, error) {
	server, err := remote.ParseServer(c.server)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	token := ""
	switch text := c.getenv(tokenVariable); {
	case c.tokenFile != "":
		if token, err = remote.ReadToken(c.tokenFile); err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
	case text != "":
		if token, err = remote.ParseToken(text); err != nil {
			return nil, fmt.Errorf("%s: %w", tokenVariable, err)
		}
	}
	client, err := remote.New(remote.Options{Server: server, Token: token,
		Version: app.Version(), PlainHTTP: c.plainHTTP})
	if err != nil {
		return nil, fmt.Errorf("%w, or --plain-http", err)
	}
	return client, nil
}

// withLocal calls use with the configured cluster.
func (c *commandLine) withLocal(config *configs.Config, store app.Storage,
	use func(cluster) error) error {
	registry, err := app.NewRegistry(c.program.Handlers)
	if err != nil {
		return err
	}
	var backend *app.LockBackend
	var advisory admin.Advisory // not a nil *locking.Locker
	if config.Locking.Memcached != nil {
		if backend, err = app.NewLockBackend(config, zerolog.Nop()); err != nil {
			return err
		}
		defer backend.Close() //nolint:errcheck // no lock depends on these connections
	}
	locker, err := app.NewLocker(config, backend, store, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	if locker != nil {
		advisory = locker
	}
	table := explain.TableOf(app.Jobs(config))
	specs := app.SpecParser{Config: func() *configs.Config { return config }, Registry: registry}
	ops := app.NewOperations(specs, table.Job, store, store.Outbox, locker, "", nil, zerolog.Nop())
	cron := &localTable{config: config, specs: specs, store: store}
	status := app.StatusOptions(config, store, ops, backend)
	view := admin.NewView(admin.Options{Store: store, StoreName: status.StoreName,
		Rules: status.Rules, Operations: ops, Memcached: status.Memcached, Advisory: advisory,
		Upcoming: cron.upcoming, ScheduledTimes: cron.scheduledTimes, WaitEnd: cron.waitEnd,
		Explain: cron.explain})
	return use(&local{View: view, table: cron, ops: ops, store: store, backend: backend})
}
