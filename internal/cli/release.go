package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// releaseCommand returns the command "release".
func (c *commandLine) releaseCommand() *cobra.Command {
	var request storage.ReleaseRequest
	cmd := c.actionCommand(&cobra.Command{
		Use:   "release RESOURCE",
		Short: "Release a lock by force, so that its holder can commit nothing more",
		Args:  cobra.ExactArgs(1),
		Long: `Release a lock by force. The command deletes the claim of the holder, with all its
locks. The run of the holder is recorded as lost, and can commit nothing more in a
fenced transaction. Its effects elsewhere continue until its handler notices.

RESOURCE is a name from "scheduler locks". Without --token, the resource must have
exactly one holder.`,
		Example: `  scheduler locks
  scheduler release public/sales --token 4711 --reason "handler hangs"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		var err error
		if request.Resource, err = locking.ParseDisplay(args[0]); err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			return a.release(ctx, in, request)
		})
	})
	cmd.Flags().Int64Var((*int64)(&request.Token), "token", 0,
		"release only the holder with this `token`")
	cmd.Flags().BoolVar(&request.EndTransaction, "end-transaction", false,
		"end the open transaction of the holder; it rolls back")
	return c.completes(cmd, lockedIn)
}

// release deletes the claim of the holder that the request names.
func (a *actionLine) release(ctx context.Context, in cluster,
	request storage.ReleaseRequest) error {
	holder, err := holderOf(ctx, in, request)
	if err != nil {
		return err
	}
	request.Token = holder.Token
	released, err := in.Release(ctx, a.reason, request)
	switch {
	case errors.Is(err, storage.ErrInTransaction):
		return fmt.Errorf(
			"release %s: %s is in a transaction that can still commit; "+
				"use --end-transaction to end it", request.Resource,
			holderText(holder.Holder, holder.Token))
	case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("release %s: %s no longer holds it; list locks with \"scheduler locks\"",
			request.Resource, holderText(holder.Holder, holder.Token))
	case err != nil:
		return askReplica(err)
	}
	return a.print(released, "JOB\tREPLICA\tRUN\tTOKEN\tRESOURCES",
		[][]string{{released.Holder.Job, released.Holder.Replica, released.Holder.Run,
			fmt.Sprint(released.Token), resourceNames(released.Resources)}})
}

// holderOf returns the lock of the holder with the token. Without a token, it returns the lock of
// the only holder.
func holderOf(ctx context.Context, in cluster, request storage.ReleaseRequest) (admin.Lock, error) {
	locks, err := in.Locks(ctx)
	if err != nil {
		return admin.Lock{}, err
	}
	var holders []admin.Lock
	var names []string
	for _, l := range locks {
		if l.Resource == request.Resource.String() {
			holders, names = append(holders, l), append(names, holderText(l.Holder, l.Token))
		}
	}
	for _, l := range holders {
		if l.Token == request.Token || request.Token == 0 && len(holders) == 1 {
			return l, nil
		}
	}
	switch {
	case len(holders) == 0:
		locked := make([]string, len(locks))
		for i, l := range locks {
			locked[i] = l.Resource
		}
		hint := didYouMean(request.Resource.String(), locked)
		if hint == "" {
			hint = "; list locks with \"scheduler locks\""
		}
		return admin.Lock{}, fmt.Errorf("release %s: it is not locked%s", request.Resource, hint)
	case request.Token == 0:
		return admin.Lock{}, fmt.Errorf(
			"release %s: it has %d holders, select one with --token: %s",
			request.Resource, len(holders), strings.Join(names, "; "))
	}
	return admin.Lock{}, fmt.Errorf("release %s: token %d does not hold it, held by %s",
		request.Resource, request.Token, strings.Join(names, "; "))
}

// holderText names the job, run and replica of a holder, and its token.
func holderText(o locking.Owner, token jobs.Token) string {
	return fmt.Sprintf("%s with token %d", locking.Holder{Owner: o}, token)
}
