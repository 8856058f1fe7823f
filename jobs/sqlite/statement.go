package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/namedargs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var errManyStatements = errors.New("expected one statement, found more")

// controlWords begin the statements that start or end transactions, access other files, or change
// the connection's settings.
var controlWords = []string{"attach", "begin", "commit", "detach", "end", "pragma", "release",
	"rollback", "savepoint", "vacuum"}

const totalChanges = `SELECT total_changes()`

// execCounted runs the statement and returns how many rows it changed. The driver reports the last
// change of the connection, which a SELECT or a CREATE does not reset.
func execCounted(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int64, error) {
	var before, after int64
	if err := tx.QueryRowContext(ctx, totalChanges).Scan(&before); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, totalChanges).Scan(&after); err != nil || after == before {
		return 0, err
	}
	return result.RowsAffected()
}

// datetime is the form of SQLite's function datetime. A fraction is added only if there is one, so
// that such texts are in the order of their times.
const datetime = "2006-01-02 15:04:05.999999"

// storedTime returns the text that stands for a time in statements of jobs.
func storedTime(t time.Time) string { return t.UTC().Format(datetime) }

// numbered replaces the arguments with names by numbers, and adds them to those by position.
func numbered(statement storage.Statement) (text string, args []any) {
	if len(statement.Named) == 0 {
		return statement.SQL, statement.Args
	}
	text, names := namedargs.Number(statement.SQL, len(statement.Args),
		func(n int, _ string) string { return fmt.Sprintf("?%d", n) })
	args = slices.Clone(statement.Args)
	for _, name := range names {
		value := statement.Named[name].Value
		if at, ok := value.(time.Time); ok {
			value = storedTime(at)
		}
		args = append(args, value)
	}
	return text, args
}

// checkStatement refuses statements that must not run in a fenced transaction.
func checkStatement(text string) error {
	words := scanner{rest: text}
	first := words.next()
	for first == ";" {
		first = words.next()
	}
	if slices.Contains(controlWords, first) {
		return fmt.Errorf("%s: %w", strings.ToUpper(first), ErrTransactionControl)
	}
	if first == "" {
		return errors.New("expected a statement, found nothing")
	}
	return words.expectEnd(first)
}

// expectEnd refuses text after the statement that begins with first. The body of a trigger contains
// semicolons, and ends with a semicolon before END.
func (s *scanner) expectEnd(first string) error {
	trigger := false
	words := 0
	for last, word := first, s.next(); word != ""; last, word = word, s.next() {
		words++
		if first == "create" && words <= 2 && word == "trigger" {
			// CREATE TRIGGER, CREATE TEMP TRIGGER
			trigger = true
		}
		if trigger && last == ";" && word == "end" {
			trigger = false
		}
		if word == ";" && !trigger {
			return s.expectNothing()
		}
	}
	return nil
}

func (s *scanner) expectNothing() error {
	for word := s.next(); word != ""; word = s.next() {
		if word != ";" {
			return errManyStatements
		}
	}
	return nil
}

// scanner splits SQL into words, enough to find where statements begin and end.
type scanner struct{ rest string }

// next returns the next word in lower case, a semicolon, or "." for anything
// else: a literal, a quoted name, an operator. It returns "" at the end.
func (s *scanner) next() string {
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\r\n\f\v\ufeff")
		switch {
		case s.rest == "":
			return ""
		case strings.HasPrefix(s.rest, "--"):
			s.skipPast(2, "\n")
		case strings.HasPrefix(s.rest, "/*"): // SQLite's do not nest
			s.skipPast(2, "*/")
		case s.rest[0] == ';':
			s.rest = s.rest[1:]
			return ";"
		case strings.IndexByte("'\"`", s.rest[0]) >= 0:
			// a doubled quote reads as two literals, which is equivalent here
			s.skipPast(1, s.rest[:1])
			return "."
		case s.rest[0] == '[':
			s.skipPast(1, "]")
			return "."
		default:
			return s.word()
		}
	}
}

func (s *scanner) word() string {
	end := strings.IndexFunc(s.rest, func(r rune) bool {
		return !(r == '_' || r == '$' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' ||
			r >= 0x80)
	})
	switch {
	case end < 0:
		end = len(s.rest)
	case end == 0:
		s.rest = s.rest[1:]
		return "."
	}
	word := strings.ToLower(s.rest[:end])
	s.rest = s.rest[end:]
	return word
}

// skipPast drops the first n bytes and everything up to and including end.
func (s *scanner) skipPast(n int, end string) {
	_, s.rest, _ = strings.Cut(s.rest[n:], end)
}
