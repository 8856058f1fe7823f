package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
)

const (
	replicaCount = 3
	readyLimit   = time.Minute
	stopLimit    = time.Minute // more than the replicas' own grace
)

// cluster is the replica processes of one phase.
type cluster []*replicas.Process

// startCluster starts the replicas and returns when all can start runs.
func startCluster(ctx context.Context, spec replicas.Spec) (cluster, error) {
	var c cluster
	for i := range replicaCount {
		spec.Name = fmt.Sprintf("replica-%c", 'a'+i)
		process, err := replicas.Start(ctx, spec)
		if err != nil {
			return nil, errors.Join(err, c.kill())
		}
		c = append(c, process)
	}
	bounded, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, process := range c {
		if err := process.Ready(bounded); err != nil {
			return nil, errors.Join(err, c.kill())
		}
	}
	return c, nil
}

// stop asks all replicas to stop and waits for them. It returns an error when
// one did not end well, or had ended before.
func (c cluster) stop(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var all errgroup.Group
	for _, process := range c {
		all.Go(func() error {
			if err := process.Stop(bounded); err != nil {
				return fmt.Errorf("replica %s ended badly: %w\n%s", process.Name, err,
					process.Tail(2000))
			}
			return nil
		})
	}
	return all.Wait()
}

// kill ends what is left of the replicas; after stop it does nothing.
func (c cluster) kill() error {
	var problems []error
	for _, process := range c {
		problems = append(problems, process.Kill())
	}
	return errors.Join(problems...)
}
