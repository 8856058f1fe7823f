package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// SchemaError reports that a newer binary has changed the schema in a way that this binary does not
// understand.
type SchemaError struct {
	MinBinary int // the version that the schema requires
	Binary    int // the version that this binary understands
}

// Error returns the two versions and the advice to upgrade the binary.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("read schema: this binary understands version %d, the database "+
		"requires version %d: upgrade the binary", e.Binary, e.MinBinary)
}

// transient are the SQLSTATE classes and codes after which the same call may
// well succeed: connection exceptions, insufficient resources, operator
// intervention, serialization failure, deadlock, lock not available.
var transient = []string{"08", "53", "57", "40001", "40P01", lockNotAvailable, "25P03", readOnly}

// readOnly is the SQLSTATE of a write on a server that is the primary no more.
const readOnly = "25006"

// isBroken reports whether another connection may answer what this one did not:
// there was no answer, or one that the server can't serve it.
func isBroken(err error) bool {
	if err == nil {
		return false
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return !errors.Is(err, jobs.ErrSessionLost)
	}
	return answer.Code == readOnly || strings.HasPrefix(answer.Code, "08") ||
		strings.HasPrefix(answer.Code, "57P")
}

// lockNotAvailable is the SQLSTATE of a row that was held for too long.
const lockNotAvailable = "55P03"

// wrap says what was being done, and turns what a later try may mend into
// jobs.ErrUnavailable, or jobs.ErrRowHeld where it is but a row.
func wrap(what string, err error) error {
	if codeOf(err) == lockNotAvailable {
		return wrapAs(jobs.ErrRowHeld, what, err)
	}
	return wrapAs(jobs.ErrUnavailable, what, err)
}

// wrapLocks is wrap with the errors of package locking: it turns what a later
// try may mend into locking.ErrUnavailable, and what requireSession refused
// into locking.ErrSessionLost.
func wrapLocks(what string, err error) error {
	if isRefused(err) {
		return fmt.Errorf("%s: %w", what, locking.ErrSessionLost)
	}
	return wrapAs(locking.ErrUnavailable, what, err)
}

// divisionByZero is how a statement fails on purpose, so that nothing that was
// sent before it or behind it takes effect.
const divisionByZero = "22012"

func isRefused(err error) bool { return codeOf(err) == divisionByZero }

// isTimeout reports whether a statement waited for too long.
func isTimeout(err error) bool { return codeOf(err) == lockNotAvailable || codeOf(err) == "57014" }

// codeOf returns the SQLSTATE of an answer of PostgreSQL's, or "".
func codeOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// ownErrors are answers: a later try is answered alike.
var ownErrors = []error{jobs.ErrSessionLost, jobs.ErrSuperseded, jobs.ErrNotFound, jobs.ErrConflict,
	jobs.ErrFromConfig, jobs.ErrInTransaction,
	jobs.ErrPaused, jobs.ErrBusy, jobs.ErrBadInput, errMoved}

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

// connectError says on one line why no connection was made. The driver's own
// text has a line for each attempt, the same one twice where it tried with and
// without TLS.
type connectError struct{ *pgconn.ConnectError }

// Error returns the driver's text, each different line once.
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
