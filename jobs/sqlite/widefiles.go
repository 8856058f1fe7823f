package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// WideFiles returns the files of the store that users other than the owner may use, each with its
// mode. These are the database file, -wal, -shm and .lock. It returns none on Windows.
func WideFiles(path string) ([]string, error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	var wide []string
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("database file: %w", err)
		case info.Mode().Perm()&^ownerOnly != 0:
			wide = append(wide, fmt.Sprintf("%s (%o)", path+suffix, info.Mode().Perm()))
		}
	}
	return wide, nil
}
