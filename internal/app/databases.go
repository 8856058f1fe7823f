package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// OpenJobDatabase returns a database of the section databases. It does not connect yet.
func OpenJobDatabase(ctx context.Context, config *configs.Config, name string,
	progress storage.JobProgress, log zerolog.Logger) (*postgres.Database, error) {
	given, known := config.Databases[name]
	if !known && len(config.Databases) == 0 {
		return nil, fmt.Errorf("database %q: the configuration has no section databases", name)
	}
	if !known {
		return nil, fmt.Errorf("database %q is not in the configuration, expected one of %q", name,
			slices.Sorted(maps.Keys(config.Databases)))
	}
	database, err := postgres.OpenDatabase(ctx, postgres.DatabaseOptions{
		URL: given.URL.Reveal(), MaxConnections: given.MaxConnections,
		Unfenced: given.Fence == configs.NoFence, Progress: progress, Log: log})
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	return database, nil
}

// The times of the checks of a database.
const (
	databaseCheckEvery = 5 * time.Second
	databaseCheckLimit = 5 * time.Second // of one check
	databasePruneEvery = time.Hour
	databasePruneLimit = time.Minute // then the next one continues
	databasePruneAgain = 5 * time.Minute
	// The commit of a row can be earlier than the creation of the run that needs it, because clocks
	// differ.
	databaseKeepMore = 24 * time.Hour
)

// runLister is the part of the store that tells for how long rows of the fence are needed.
type runLister interface {
	Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error)
}

// jobDatabase is a database of jobs, and the result of its last check. Its methods may be called
// concurrently, except watch.
type jobDatabase struct {
	*postgres.Database
	name    string
	cluster uuid.UUID
	keep    time.Duration // of the history
	store   runLister
	log     zerolog.Logger

	state  atomic.Pointer[databaseState]
	pruned time.Time
}

// databaseState is the result of a check.
type databaseState struct {
	err   error // nil: jobs can use the database
	since time.Time
}

// Available implements engine.Database.
func (d *jobDatabase) Available() error {
	state := d.state.Load()
	if state == nil || state.err == nil {
		return nil
	}
	return fmt.Errorf("database %s is not available since %s: %w", d.name,
		state.since.UTC().Format(time.RFC3339), state.err)
}

// State implements engine.Database.
func (d *jobDatabase) State() storage.DatabaseState {
	state := d.state.Load()
	switch {
	case state == nil:
		return storage.DatabaseState{}
	case state.err == nil:
		return storage.DatabaseState{Since: state.since}
	}
	return storage.DatabaseState{Error: state.err.Error(), Since: state.since}
}

// check checks the database once, and logs a change.
func (d *jobDatabase) check(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, databaseCheckLimit)
	defer cancel()
	err := d.Check(limited)
	if ctx.Err() != nil {
		return // the replica stops
	}
	before := d.state.Load()
	if before != nil && (before.err == nil) == (err == nil) {
		d.state.Store(&databaseState{err, before.since})
		return
	}
	d.state.Store(&databaseState{err, time.Now()})
	switch {
	case err != nil:
		d.log.Warn().Str("database", d.name).Err(err).
			Msg("database of jobs is not available, its jobs do not start")
	case before != nil:
		d.log.Info().Str("database", d.name).Msg("database of jobs is available again")
	}
}

// prune deletes old rows of the fence once in a while.
func (d *jobDatabase) prune(ctx context.Context) {
	if d.Available() != nil || time.Since(d.pruned) < databasePruneEvery {
		return
	}
	d.pruned = time.Now()
	limited, cancel := context.WithTimeout(ctx, databasePruneLimit)
	defer cancel()
	keep, err := d.keepRows(limited)
	if err == nil {
		err = d.PruneFence(limited, d.cluster, keep)
	}
	if err != nil { // the next prune comes after databasePruneAgain
		d.pruned = d.pruned.Add(databasePruneAgain - databasePruneEvery)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn().Str("database", d.name).Err(err).Msg("prune fence failed, retrying")
	}
}

// keepRows returns for how long the fence keeps its rows. Without the row of its firing, a further
// attempt of a run would repeat the effects. The history keeps runs that have not ended, however
// old they are. A recovery also needs the rows of the lost run, which began at the time of the
// firing or later.
func (d *jobDatabase) keepRows(ctx context.Context) (time.Duration, error) {
	filter := storage.RunFilter{States: []jobs.State{jobs.Waiting, jobs.Running},
		Later: new(false), After: &storage.RunCursor{CreatedAt: time.Unix(0, 0)},
		Limit: storage.MaxBatch}
	keep := d.keep
	for {
		open, err := d.store.Runs(ctx, filter)
		if err != nil {
			return 0, fmt.Errorf("find the oldest run that has not ended: %w", err)
		}
		for _, r := range open {
			keep = max(keep, time.Since(r.CreatedAt))
			if r.Recovery > 0 {
				keep = max(keep, time.Since(r.ScheduledAt))
			}
		}
		if len(open) < filter.Limit {
			return keep + databaseKeepMore, nil
		}
		newest := open[0]
		filter.After = &storage.RunCursor{CreatedAt: newest.CreatedAt, ID: newest.ID}
	}
}

// watch checks and prunes the database until ctx ends.
func (d *jobDatabase) watch(ctx context.Context) {
	for {
		d.prune(ctx)
		if err := sleep.For(ctx, databaseCheckEvery); err != nil {
			return
		}
		d.check(ctx)
	}
}

// openDatabases opens the databases of jobs and checks each once, so that the first jobs know which
// are down. A database that is down is no error.
func (r *Replica) openDatabases(ctx context.Context, config *configs.Config) error {
	if r.shared != nil && r.shared.Databases != nil {
		return nil
	}
	var checks sync.WaitGroup
	defer checks.Wait()
	for _, name := range slices.Sorted(maps.Keys(config.Databases)) {
		opened, err := OpenJobDatabase(ctx, config, name, r.store.RunStore, r.log)
		if err != nil {
			return err
		}
		d := &jobDatabase{Database: opened, name: name, cluster: r.store.ClusterID(),
			keep: config.History.Keep, store: r.store, log: r.log}
		r.databases = append(r.databases, d)
		checks.Go(func() { d.check(ctx) })
	}
	return nil
}

// databasesOfEngine returns the databases of jobs for the scheduler.
func (r *Replica) databasesOfEngine() engine.Databases {
	all := engine.Databases{}
	if r.shared != nil && r.shared.Databases != nil {
		for name := range r.config.Load().Databases {
			all[name] = r.shared.Databases(name)
		}
	}
	for _, d := range r.databases {
		all[d.name] = d
	}
	return all
}

// availableDatabases returns whether jobs can use each database, by name.
func availableDatabases(databases []*jobDatabase) map[string]bool {
	all := map[string]bool{}
	for _, d := range databases {
		all[d.name] = d.Available() == nil
	}
	return all
}

// databasesOfStatus returns the databases for the status of the cluster.
func databasesOfStatus(databases []*jobDatabase) []status.JobDatabase {
	var all []status.JobDatabase
	for _, d := range databases {
		one := status.JobDatabase{Name: d.name}
		if state := d.state.Load(); state != nil {
			one.Err, one.Since = state.err, state.since
		}
		all = append(all, one)
	}
	return all
}

// closeDatabases closes the databases of jobs.
func (r *Replica) closeDatabases() {
	var problems []error
	for _, d := range r.databases {
		if err := d.Close(); err != nil {
			problems = append(problems, fmt.Errorf("database %s: %w", d.name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		r.log.Warn().Err(err).Msg("closing the databases of jobs returned an error")
	}
}
