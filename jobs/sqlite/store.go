package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	defaultReaders     = 4
	defaultBusyTimeout = 5 * time.Second
	ownerOnly          = fs.FileMode(0o600)
)

// Options are the settings of a Store.
type Options struct {
	// Exclusive takes the file lock. It creates and migrates the file if needed. Without Exclusive,
	// the file must exist with a current schema, and the store only reads and performs actions.
	Exclusive bool
	// Readers is the number of reading connections; 0 means 4.
	Readers int
	// BusyTimeout is how long a transaction waits for another process that is writing; 0 means 5 s.
	BusyTimeout time.Duration
	Log         zerolog.Logger
}

// Store is a storage.Store on a SQLite file. It may be used concurrently, and by several replicas
// of one process.
type Store struct {
	path    string
	log     zerolog.Logger
	cluster uuid.UUID

	lock    *flock.Flock // nil unless exclusive
	writer  *sql.DB      // one connection, used under gate
	readers *sql.DB
	gate    chan struct{} // holds a value while the writer is in use
	closed  chan struct{}
	closing sync.Once

	sessions  liveSessions
	listeners listeners
	fencing   fencing
	checking  sync.Mutex // held while misfires are checked
	pruning   rules.Turn
}

var (
	_ storage.Store         = (*Store)(nil)
	_ storage.RunStore      = (*Store)(nil)
	_ storage.LoginAttempts = (*Store)(nil)
)

// Open opens the file. It returns one of these errors:
//   - an error that wraps ErrLocked, if Exclusive is set and another store has the file lock
//   - an error that wraps fs.ErrNotExist, if the folder does not exist, or if the file does not
//     exist and Exclusive is not set
//   - a *SchemaError, if the file requires a newer binary
//
// Only its owner can use a new file and its side files (mode 0600).
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	path, err := usablePath(path, opts.Exclusive)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, log: opts.Log, gate: make(chan struct{}, 1),
		closed: make(chan struct{}), sessions: newLiveSessions(), listeners: newListeners()}
	if opts.Exclusive {
		if s.lock, err = lockFile(path); err != nil {
			return nil, err
		}
		if err := s.restrict(); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err = s.connect(opts); err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("database file %s: %w", path, err)
	}
	return s, nil
}

// usablePath returns the absolute path without symbolic links, so that each path of a file has the
// same lock. It returns an error with its cause, because SQLite's own error is only "unable to open
// database file".
func usablePath(path string, create bool) (string, error) {
	if path == "" || path == ":memory:" {
		return "", fmt.Errorf("database file %q: expected the path of a file", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("database file: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", fmt.Errorf("database file %s: is a folder", path)
	case errors.Is(err, os.ErrNotExist) && create:
		target, err := missingTarget(path)
		if err != nil {
			return "", fmt.Errorf("database file %s: %w", path, err)
		}
		return target, nil
	case err != nil:
		return "", fmt.Errorf("database file: %w", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("database file: %w", err)
	}
	return path, nil
}

// missingTarget returns the path of a file that does not exist, without symbolic links. path may be
// such a link.
func missingTarget(path string) (string, error) {
	folder, file := filepath.Split(path)
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", fmt.Errorf("its folder: %w", err)
	}
	path = filepath.Join(folder, file)
	target, err := os.Readlink(path)
	switch {
	case err != nil: // it is not a link
		return path, nil
	case filepath.IsAbs(target):
		return missingTarget(target)
	}
	// filepath.Join would take "link/.." for the folder of the link
	return missingTarget(folder + string(filepath.Separator) + target)
}

func lockFile(path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(ownerOnly))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock file %s: %w", lock.Path(), err)
	}
	if !held {
		return nil, fmt.Errorf("database file %s: %w (it holds %s)", path, ErrLocked, lock.Path())
	}
	return lock, nil
}

// restrict creates the file if there is none, for its owner only, because params and outputs may
// hold secrets. SQLite gives its side files the rights of the file. Wider rights of an existing
// file are logged.
func (s *Store) restrict() error {
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, ownerOnly)
	if err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	if rights := info.Mode().Perm(); rights&^ownerOnly != 0 && runtime.GOOS != "windows" {
		s.log.Warn().Str("file", s.path).Stringer("mode", rights).
			Msg("database file is open to other users, expected mode 0600")
	}
	return nil
}

func (s *Store) connect(opts Options) (err error) {
	readers, busy := opts.Readers, opts.BusyTimeout
	if readers <= 0 {
		readers = defaultReaders
	}
	if busy <= 0 {
		busy = defaultBusyTimeout
	}
	writing := []string{"synchronous(FULL)", "foreign_keys(1)"}
	if opts.Exclusive {
		// only an exclusive opener sets the WAL mode: a command must not change a file that is not
		// Holdfast's
		writing = append(writing, "journal_mode(WAL)")
	}
	if s.writer, err = openPool(dsn(s.path, busy, "immediate", writing...)); err != nil {
		return wrap("connection", err)
	}
	if s.readers, err = openPool(dsn(s.path, busy, "deferred", "query_only(1)")); err != nil {
		return wrap("connection", err)
	}
	s.writer.SetMaxOpenConns(1)
	s.readers.SetMaxOpenConns(readers)
	s.readers.SetMaxIdleConns(readers)
	return nil
}

func dsn(path string, busy time.Duration, begin string, pragmas ...string) string {
	query := url.Values{
		"_txlock": {begin},
		"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds())),
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}).
		String()
}

func (s *Store) prepare(ctx context.Context) error {
	if s.lock != nil {
		if err := s.migrate(ctx, migrations, schemaVersion); err != nil {
			return err
		}
		if err := s.endFormerSessions(ctx); err != nil {
			return err
		}
	}
	current, err := s.readSchema(ctx, s.readers)
	if err != nil {
		return wrap("read schema", err)
	}
	if current.version < schemaVersion {
		return fmt.Errorf("read schema: version %d is older than version %d of this binary: "+
			"start the scheduler first: %w", current.version, schemaVersion, storage.ErrNotFound)
	}
	s.cluster = current.cluster
	return nil
}

// ClusterID implements storage.Store.
func (s *Store) ClusterID() uuid.UUID { return s.cluster }

// closeTimeout bounds Close.
const closeTimeout = 5 * time.Second

// Close implements storage.Store. It closes the file and releases the file lock. For that it waits
// at most 5 s for the open transaction, because an abandoned handler may stay in it for ever. The
// file is then closed at the end of the transaction, or with the process. Later calls of other
// methods return storage.ErrUnavailable.
func (s *Store) Close() {
	s.closing.Do(func() {
		close(s.closed)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			s.closeFile()
		}()
		select {
		case <-closed:
		case <-time.After(closeTimeout):
			s.log.Warn().Str("file", s.path).Msg("database file still in use by a transaction")
		}
	})
}

func (s *Store) closeFile() {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	s.gate <- struct{}{} // and never given back
	if s.writer != nil { // after the readers, because it checkpoints the WAL
		errs = append(errs, s.writer.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Warn().Err(err).Str("file", s.path).Msg("database file did not close cleanly")
	}
}
