package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"
)

// queryer is a pool or a transaction for reading.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// writeFunc is Store.write or Store.writeNow.
type writeFunc func(ctx context.Context, what string, fn func(tx *sql.Tx) error) error

// write runs fn in a transaction of the only writer, after earlier ones.
func (s *Store) write(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return wrap(what, err)
	}
	defer s.leave()
	return s.writeNow(ctx, what, fn)
}

// writeNow is write for a caller that has the writer.
func (s *Store) writeNow(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	return wrap(what, s.transact(ctx, fn))
}

// tryWrite is write, but writes nothing if the writer is in use for longer than the limit.
func (s *Store) tryWrite(ctx context.Context, what string, limit time.Duration,
	fn func(tx *sql.Tx) error) error {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	entered, err := s.enterBefore(ctx, wait.Done())
	if err != nil {
		return wrap(what, err)
	}
	if !entered {
		return nil
	}
	defer s.leave()
	return s.writeNow(ctx, what, fn)
}

// enter waits for the writer. The caller must call leave.
func (s *Store) enter(ctx context.Context) error {
	_, err := s.enterBefore(ctx, nil)
	return err
}

// enterBefore is enter, but returns false if the event comes first.
func (s *Store) enterBefore(ctx context.Context, event <-chan struct{}) (bool, error) {
	select {
	case <-s.closed:
		return false, errClosed
	default:
	}
	select {
	case s.gate <- struct{}{}:
		return true, nil
	case <-event:
		return false, nil
	case <-s.closed:
		return false, errClosed
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func (s *Store) leave() { <-s.gate }

func (s *Store) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		if s.lock == nil && isBusy(err) {
			return fmt.Errorf("%w: %w", ErrOtherWriter, err)
		}
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// exclusively returns an error if the store lacks the file lock.
func (s *Store) exclusively(what string) error {
	if s.lock == nil {
		return wrap(what, ErrNotExclusive)
	}
	return nil
}

// each calls scan for every row of the query.
func each(ctx context.Context, from queryer, query string, args []any,
	scan func(rows *sql.Rows) error) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// encode returns v as JSON: a statement receives a whole batch as one argument and expands it with
// json_each.
func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// row returns the arguments of one execution of a statement.
type row interface{ values() []any }

// execRows runs the statement once for each row.
func execRows[T row](ctx context.Context, tx *sql.Tx, statement string, rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	prepared, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	// For a context that can end, the driver starts a goroutine for each row.
	endless := context.WithoutCancel(ctx)
	for _, r := range rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := prepared.ExecContext(endless, r.values()...); err != nil {
			return err
		}
	}
	return nil
}

// execBatch runs a statement whose one argument is the batch as JSON, unless
// the batch is empty.
func execBatch[T any](ctx context.Context, tx *sql.Tx, statement string, batch []T) error {
	if len(batch) == 0 {
		return nil
	}
	encoded, err := encode(batch)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statement, encoded)
	return err
}

// jsonColumn is a value that is stored as JSON. A nil value is NULL.
type jsonColumn struct{ v any }

// Value returns the JSON text.
func (c jsonColumn) Value() (driver.Value, error) {
	text, err := encode(c.v)
	if err != nil || text == "null" {
		return nil, err
	}
	return text, nil
}

// decodeColumn decodes a jsonColumn that is not NULL.
func decodeColumn(name string, text *string, into any) error {
	if text == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(*text), into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// null returns NULL for a zero value.
func null[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// micros returns a time in its stored form.
func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

func fromNullMicros(us sql.NullInt64) *time.Time {
	if !us.Valid {
		return nil
	}
	t := fromMicros(us.Int64)
	return &t
}

// nullMicros returns NULL for no time and for the zero time.
func nullMicros(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return micros(*t)
}

// microsOrZero returns 0 for the zero time.
func microsOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return micros(t)
}

func fromMicrosOrZero(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return fromMicros(us)
}
