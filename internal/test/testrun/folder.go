package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const folderPrefix = "holdfast-test-"

// folder is the folder for the temporary files of one run's tests.
type folder struct {
	path string
	lock *os.File // a file in the folder, locked while this process is alive
}

// newFolder creates a folder below parent and removes those of killed runs. Servers that run as
// another user may enter the folder.
func newFolder(parent string) (*folder, error) {
	if err := removeStale(parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("create folder of the run: %w", err)
	}
	f := &folder{path: path}
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("create folder of the run: %w", err), f.remove())
	}
	if f.lock, err = lockFolder(path); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.remove())
	}
	return f, nil
}

// environment returns the variables that make the tests use the folder.
func (f *folder) environment() []string { return []string{"TMPDIR=" + f.path} }

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}

// removeStale removes the folders in parent whose runs have ended without removing them. It skips a
// folder without a lock file, because its run is just creating it.
func removeStale(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("look for folders of earlier runs: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), folderPrefix) {
			continue
		}
		if _, err := os.Stat(lockPath(path)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		lock, err := lockFolder(path)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, os.ErrPermission) {
			continue // in use, or the folder of another user
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if err := errors.Join(os.RemoveAll(path), lock.Close()); err != nil {
			return fmt.Errorf("remove the folder of an earlier run: %w", err)
		}
	}
	return nil
}

func lockPath(path string) string { return filepath.Join(path, "lock") }

// lockFolder locks the file. The error is EWOULDBLOCK while another process holds the lock.
// Children do not inherit the lock.
func lockFolder(path string) (*os.File, error) {
	file, err := os.OpenFile(lockPath(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
