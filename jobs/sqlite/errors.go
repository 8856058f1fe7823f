package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var (
	// ErrLocked reports that another store has the file open exclusively.
	ErrLocked = errors.New("in use by another replica")
	// ErrNotExclusive refuses calls that need the file lock.
	ErrNotExclusive = errors.New("store was opened beside a scheduler: it reads, and does what " +
		"operators do")
	// ErrOtherWriter is the error if a transaction of another process does not end in time. Calls
	// of a store without the file lock return it, with storage.ErrUnavailable.
	ErrOtherWriter = errors.New("another process is inside a transaction on the file")
	// ErrTransactionControl refuses a statement that would end the fenced transaction or access
	// other files.
	ErrTransactionControl = errors.New("transaction control is not allowed in a fenced transaction")

	errClosed = errors.New("store is closed")
)

// poolClosed is the text of database/sql's error for a closed pool. The package exports no error
// value for it.
const poolClosed = "sql: database is closed"

// transient are the primary result codes after which the same call may succeed.
var transient = []int{codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_INTERRUPT,
	codes.SQLITE_IOERR, codes.SQLITE_FULL,
	codes.SQLITE_CANTOPEN, codes.SQLITE_NOMEM}

// wrap prefixes the operation. An error that a retry may resolve becomes storage.ErrUnavailable.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, storage.ErrUnavailable) && isTransient(err) {
		return fmt.Errorf("%s: %w: %w", what, storage.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isBusy reports whether another process had the write lock of the file.
func isBusy(err error) bool {
	var answer *driver.Error
	return errors.As(err, &answer) && answer.Code()&0xff == codes.SQLITE_BUSY
}

func isTransient(err error) bool {
	var answer *driver.Error
	if errors.As(err, &answer) {
		return slices.Contains(transient, answer.Code()&0xff) // the low byte is the primary code
	}
	for _, passing := range []error{context.Canceled, context.DeadlineExceeded, errClosed,
		sql.ErrConnDone, sql.ErrTxDone} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return err.Error() == poolClosed
}
