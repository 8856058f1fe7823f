package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestNamedArgumentsHaveTypes uses arguments where PostgreSQL would infer other types than theirs.
func TestNamedArgumentsHaveTypes(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "windows"))
	s.exec("CREATE TABLE public.windows (since timestamptz, until timestamptz, what text)")
	at := time.Date(2026, 5, 1, 9, 0, 0, 0, time.FixedZone("", 7200))
	named := map[string]storage.NamedArg{
		"at": {Value: at, Type: "timestamptz"}, "none": {Type: "timestamptz"},
		"id": {Value: uuid.Max, Type: "uuid"}, "token": {Value: int64(1 << 40), Type: "bigint"},
		"word": {Value: "it's"},
	}
	rows, err := s.a.RunStatements(t.Context(), run, storage.Script{Statements: []storage.Statement{
		{SQL: "INSERT INTO windows VALUES (@at - interval '1 day', @at, $1 || (@token + 1) || " +
			"' @at ' || $$@at$$ || @id || @word::text) -- @at",
			Args: []any{"x"}, Named: named},
		{SQL: "UPDATE windows SET since = coalesce(@none, since - interval '1h') WHERE until = @at",
			Named: named},
	}})
	if err != nil || len(rows) != 2 || rows[1] != 1 {
		t.Fatalf("got rows %v and %v", rows, err)
	}
	const want = "2026-04-30 06:00 2026-05-01 07:00 x1099511627777 @at @at" +
		"ffffffff-ffff-ffff-ffff-ffffffffffffit's"
	got := query[string](s, "SELECT to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI ') || "+
		"to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI ') || what FROM public.windows")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
