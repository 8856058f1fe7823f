package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Database is a database other than the store, in which jobs have their tables.
type Database interface {
	storage.RunStore
	// Available returns nil unless it is known that jobs cannot use the database now.
	Available() error
	// State returns the result of the last check, without the name.
	State() storage.DatabaseState
}

// Databases are the databases of jobs, by name.
type Databases map[string]Database

// storeOf returns where the runs of a job have their transactions. store is that of the name "".
func (d Databases) storeOf(name string, store storage.RunStore) storage.RunStore {
	if name == "" {
		return store
	}
	if database, open := d[name]; open {
		return database
	}
	return missing{store, d.available(name)}
}

// states returns the states of all databases, by name.
func (d Databases) states() []storage.DatabaseState {
	var all []storage.DatabaseState
	for _, name := range slices.Sorted(maps.Keys(d)) {
		state := d[name].State()
		state.Name, state.Since = name, state.Since.UTC()
		all = append(all, state)
	}
	return all
}

// available returns why the jobs of a database cannot start, or nil.
func (d Databases) available(name string) error {
	if name == "" {
		return nil
	}
	database, open := d[name]
	if !open {
		return fmt.Errorf("database %s is not open: restart the replica after the change of its "+
			"configuration", name)
	}
	return database.Available()
}

// missing is the store of runs whose database is not open.
type missing struct {
	storage.JobProgress
	err error
}

// InTx implements storage.RunStore.
func (m missing) InTx(context.Context, *jobs.Run, func(tx jobs.Tx) error) error { return m.err }

// CompleteInTx implements storage.RunStore.
func (m missing) CompleteInTx(context.Context, *jobs.Run, func(tx jobs.Tx) error) error {
	return m.err
}

// RunStatements implements storage.RunStore.
func (m missing) RunStatements(context.Context, *jobs.Run, storage.Script) ([]int64, error) {
	return nil, m.err
}
