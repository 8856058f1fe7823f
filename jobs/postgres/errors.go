package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// SchemaError reports that this binary does not understand the schema, which a newer binary has
// changed.
type SchemaError struct {
	MinBinary int // the version that the schema requires
	Binary    int // the version that this binary understands
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("read schema: this binary understands version %d, the database "+
		"requires version %d: upgrade the binary", e.Binary, e.MinBinary)
}

// transient lists the SQLSTATE classes and codes after which the same call may succeed: connection
// exceptions, insufficient resources, operator intervention, serialization failure, deadlock, lock
// not available.
var transient = []string{"08", "53", "57", "40001", "40P01", lockNotAvailable, "25P03", readOnly}

// readOnly is the SQLSTATE of a write on a server that is no longer the primary.
const readOnly = "25006"

// isBroken reports whether another connection may succeed: there was no answer, or the server
// cannot serve the request.
func isBroken(err error) bool {
	if err == nil {
		return false
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return !errors.Is(err, storage.ErrSessionLost)
	}
	return answer.Code == readOnly || strings.HasPrefix(answer.Code, "08") ||
		strings.HasPrefix(answer.Code, "57P")
}

// lockNotAvailable is the SQLSTATE of a lock wait that took too long.
const lockNotAvailable = "55P03"

// wrap prefixes the operation. An error that a retry may resolve becomes storage.ErrUnavailable, or
// storage.ErrRowHeld if a row lock was the cause.
func wrap(what string, err error) error {
	if codeOf(err) == lockNotAvailable {
		return wrapAs(storage.ErrRowHeld, what, err)
	}
	return wrapAs(storage.ErrUnavailable, what, err)
}

// wrapLocks is wrap with the errors of package locking. An error that a retry may resolve becomes
// locking.ErrUnavailable, and a refusal of requireSession becomes locking.ErrSessionLost.
func wrapLocks(what string, err error) error {
	if isRefused(err) {
		return fmt.Errorf("%s: %w", what, locking.ErrSessionLost)
	}
	return wrapAs(locking.ErrUnavailable, what, err)
}

// uniqueViolation is the SQLSTATE of a key that another row has.
const uniqueViolation = "23505"

// divisionByZero is the SQLSTATE of a statement that fails on purpose, so that the whole
// transaction has no effect.
const divisionByZero = "22012"

func isRefused(err error) bool { return codeOf(err) == divisionByZero }

// isTimeout reports whether a statement waited for too long.
func isTimeout(err error) bool { return codeOf(err) == lockNotAvailable || codeOf(err) == "57014" }

// codeOf returns the SQLSTATE of PostgreSQL's answer, or "". The answer may be from another driver
// than pgx.
func codeOf(err error) string {
	var answer interface {
		error
		SQLState() string
	}
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	return ""
}

// ownErrors are final answers: a retry gets the same answer.
var ownErrors = []error{storage.ErrSessionLost, storage.ErrSuperseded, storage.ErrNotFound,
	storage.ErrConflict,
	storage.ErrFromConfig, storage.ErrInTransaction,
	storage.ErrPaused, storage.ErrBusy, storage.ErrBadInput, errMoved}

func wrapAs(unavailable error, what string, err error) error {
	if err == nil {
		return nil
	}
	if code := codeOf(err); code != "" && !slices.Contains(transient, code) &&
		!slices.Contains(transient, code[:2]) {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, ours := range ownErrors {
		if errors.Is(err, ours) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	var unconnected *pgconn.ConnectError
	if errors.As(err, &unconnected) {
		err = &connectError{unconnected}
	}
	return fmt.Errorf("%s: %w: %w", what, unavailable, err)
}

// RefusedConnection reports whether err says that no connection could be opened, for example
// because the server is down, the password is wrong, or the database does not exist.
func RefusedConnection(err error) bool { return errors.As(err, new(*pgconn.ConnectError)) }

// connectError formats a failed connection on one line. The driver's text has one line for each
// attempt, and repeats a line that it tried with and without TLS.
type connectError struct{ *pgconn.ConnectError }

// Error returns the driver's text with each distinct line once.
func (e *connectError) Error() string {
	first, rest, _ := strings.Cut(e.ConnectError.Error(), "\n")
	var attempts []string
	for line := range strings.SplitSeq(rest, "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(attempts, line) {
			attempts = append(attempts, line)
		}
	}
	return strings.TrimSpace(first + " " + strings.Join(attempts, "; "))
}

// Unwrap returns the driver's error.
func (e *connectError) Unwrap() error { return e.ConnectError }
