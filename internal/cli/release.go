package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

func (c *commandLine) releaseCommand() *cobra.Command {
	var request jobs.ReleaseRequest
	cmd := c.actionCommand(&cobra.Command{
		Use:   "release RESOURCE",
		Short: "Take a lock away from its holder, who can commit nothing more",
		Args:  cobra.ExactArgs(1),
		Long: `Take a lock away from its holder. The claim by which it holds the resource, and whatever else it holds by it, ends: its run
becomes lost and can commit nothing more through a fence, but what it does elsewhere goes on until it notices. The resource is named
as scheduler locks shows it. Without --token it is taken from whoever holds it now.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		var err error
		if request.Resource, err = locking.ParseDisplay(args[0]); err != nil {
			return err
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, store jobs.Store) error {
			return a.release(ctx, ops, store, request)
		})
	})
	cmd.Flags().Int64Var((*int64)(&request.Token), "token", 0,
		"take it from the holder with this `token` only")
	cmd.Flags().BoolVar(&request.EndTransaction, "end-transaction", false,
		"end the transaction that the holder is in, which rolls back")
	return cmd
}

func (a *acting) release(ctx context.Context, ops *jobs.Operations, store jobs.Store,
	request jobs.ReleaseRequest) error {
	holder, err := holderOf(ctx, store, request)
	if err != nil {
		return err
	}
	request.Token = holder.Token
	released, err := ops.Release(ctx, a.action(), request)
	switch {
	case errors.Is(err, jobs.ErrInTransaction):
		return fmt.Errorf(
			"%s is inside a transaction that may still commit: --end-transaction ends it",
			whose(holder.Holder, holder.Token))
	case errors.Is(err, jobs.ErrConflict), errors.Is(err, jobs.ErrNotFound):
		return fmt.Errorf("%s holds %s no more: look again with scheduler locks",
			whose(holder.Holder, holder.Token), request.Resource)
	case err != nil:
		return err
	}
	names := make([]string, len(released.Requests))
	for i, r := range released.Requests {
		names[i] = r.Resource.String()
	}
	value := map[string]any{"holder": released.Owner, "token": released.Token, "resources": names}
	return a.print(value, "TAKEN FROM\tREPLICA\tRUN\tTOKEN\tRESOURCES",
		[][]string{{released.Owner.Job, released.Owner.Replica, released.Owner.Run,
			fmt.Sprint(released.Token), strings.Join(names, ", ")}})
}

// holderOf returns who holds the resource: the one with the token, or the only one.
func holderOf(ctx context.Context, store jobs.Store,
	request jobs.ReleaseRequest) (jobs.LockView, error) {
	locks, err := store.Locks(ctx)
	if err != nil {
		return jobs.LockView{}, err
	}
	var holders []jobs.LockView
	var names []string
	for _, l := range locks {
		if l.Resource == request.Resource {
			holders, names = append(holders, l), append(names, whose(l.Holder, l.Token))
		}
	}
	for _, l := range holders {
		if l.Token == request.Token || request.Token == 0 && len(holders) == 1 {
			return l, nil
		}
	}
	switch {
	case len(holders) == 0:
		return jobs.LockView{}, fmt.Errorf("nobody holds %s: scheduler locks lists what is held",
			request.Resource)
	case request.Token == 0:
		return jobs.LockView{}, fmt.Errorf("%d hold %s, name one of them with --token: %s",
			len(holders), request.Resource, strings.Join(names, "; "))
	}
	return jobs.LockView{}, fmt.Errorf("%s is held by another now: %s", request.Resource,
		strings.Join(names, "; "))
}

func whose(o locking.Owner, token jobs.Token) string {
	return fmt.Sprintf("%s with token %d", locking.Holder{Owner: o}, token)
}
