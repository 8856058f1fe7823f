package postgres_test

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// A program without jobs locks a folder with everything below it. It moves the folder in a
// transaction that commits only while the program holds the lock.
func ExampleStore_InLock() {
	move := func(ctx context.Context, url, replica, path, parent string) (err error) {
		log := zerolog.New(os.Stderr)
		store, err := postgres.Open(ctx, postgres.Options{URL: url, Migrate: true, Log: log})
		if err != nil {
			return err
		}
		defer store.Close()
		locker, err := locking.New(nil, locking.Options{ // without memcached
			Grants: store.Grants(),
			// a name that no other live process has
			Session: locking.Session{Replica: replica, ReplaceEarlier: true},
			Log:     log,
		})
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- locker.Run(running) }() // keeps the session
		defer func() {
			stop()
			err = errors.Join(err, <-ended)
		}()
		if err := locker.Ready(ctx); err != nil {
			return err
		}

		folder, err := locking.Path(path)
		if err != nil {
			return err
		}
		lock, err := locker.Acquire(ctx, locking.Owner{Job: "move"},
			[]locking.Request{{Resource: folder, Mode: locking.Exclusive}},
			retry.Policy{Elapsed: 5 * time.Second, Delay: 100 * time.Millisecond})
		if err != nil {
			return err // a *locking.HeldError names the holder
		}
		defer func() { err = errors.Join(err, lock.Release(ctx)) }()
		// also ends with the lock
		bounded, cancel := context.WithTimeout(lock.Context(), time.Minute)
		defer cancel()
		return store.InLock(bounded, lock, func(tx pgx.Tx) error {
			_, err := tx.Exec(bounded, "UPDATE folders SET parent = $1 WHERE path = $2", parent,
				path)
			return err
		})
	}
	_ = move
}
