package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const deadlockTimeout = "100ms"

// servers are what both phases share; each has a database of its own.
type servers struct {
	postgres  *servertest.Postgres
	memcached *servertest.Memcached
	dir       string // of the replicas' configurations and logs
}

// startServers starts both servers with their data in temporary folders. The
// server's log is what errors are counted in.
func startServers(ctx context.Context) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "warehouse-"); err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	if s.memcached, err = servertest.StartMemcached(ctx); err != nil {
		return nil, err
	}
	s.postgres, err = servertest.StartPostgres(ctx, "", "deadlock_timeout="+deadlockTimeout,
		"log_line_prefix="+logLinePrefix)
	return s, err
}

func (s *servers) stop() error {
	var problems []error
	if s.postgres != nil {
		problems = append(problems, s.postgres.Stop())
	}
	if s.memcached != nil {
		problems = append(problems, s.memcached.Stop())
	}
	if s.dir != "" {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}
