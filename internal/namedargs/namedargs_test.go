package namedargs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/namedargs"
)

func TestOnlyArgumentsAreNumbered(t *testing.T) {
	for _, test := range []struct {
		sql, want string
		names     []string
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"", "", nil},
		{"@a", "$3", []string{"a"}},
		{"SELECT @a, @b_2, @a", "SELECT $3, $4, $3", []string{"a", "b_2"}},
		{"x=@a::date-@b", "x=$3::date-$4", []string{"a", "b"}},
		{"x>=@a AND y[@b]", "x>=$3 AND y[$4]", []string{"a", "b"}},
		{"'@a' || '''@a' || @a", "'@a' || '''@a' || $3", []string{"a"}},
		{`E'\'@a' || @a`, `E'\'@a' || $3`, []string{"a"}},
		{`e'\\' || @a`, `e'\\' || $3`, []string{"a"}},
		{`e'''@a' || @a`, `e'''@a' || $3`, []string{"a"}},
		{`'\' || @a`, `'\' || $3`, []string{"a"}},
		{`type'\' || @a`, `type'\' || $3`, []string{"a"}},
		{`"@a""@a" = @a`, `"@a""@a" = $3`, []string{"a"}},
		{"-- @a it's\n@a", "-- @a it's\n$3", []string{"a"}},
		{"-- @a\r@a", "-- @a\r$3", []string{"a"}},
		{"1 - -@a", "1 - -$3", []string{"a"}},
		{"/* @a /* */ @a */ @a / @b", "/* @a /* */ @a */ $3 / $4", []string{"a", "b"}},
		{"$$ @a ' $$ @a", "$$ @a ' $$ $3", []string{"a"}},
		{"$q$ @a $$ $q$ @a", "$q$ @a $$ $q$ $3", []string{"a"}},
		{"$1 + @a + $2", "$1 + $3 + $2", []string{"a"}},
		{"a$b$@a$b$", "a$b$$3", []string{"a$b$"}},
		{"doc @@ q AND a @> b AND c <@ d", "doc @@ q AND a @> b AND c <@ d", nil},
		{"doc @@q AND c<@d", "doc @@q AND c<@d", nil},
		{"@ -5 + @1", "@ -5 + @1", nil},
		{"'@a", "'@a", nil},
		{"/* @a", "/* @a", nil},
		{"$$ @a", "$$ @a", nil},
		{"E'@a\\", "E'@a\\", nil},
		{"@é", "$3", []string{"é"}},
	} {
		got, names := namedargs.Number(test.sql, 2,
			func(n int, _ string) string { return fmt.Sprint("$", n) })
		if got != test.want || !slices.Equal(names, test.names) {
			t.Errorf("%s: got %s with %q, want %s with %q", test.sql, got, names, test.want,
				test.names)
		}
	}
}

func TestNamesAfterAnOperatorAreReported(t *testing.T) {
	parts := namedargs.Split("a<@b")
	if len(parts) != 2 || parts[1] != (namedargs.Part{Text: "@b", Name: "b", AfterOperator: true}) {
		t.Errorf("got %+v", parts)
	}
}

func FuzzSplitKeepsTheStatement(f *testing.F) {
	for _, sql := range []string{"SELECT @a", "$a$@a$a$", "E'\\'@a'", "/*/*@a*/", "--@a", "$",
		"@"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		var all strings.Builder
		for _, p := range namedargs.Split(sql) {
			if p.Text == "" || p.Name != "" && p.Text != "@"+p.Name {
				t.Errorf("%q: part %+v", sql, p)
			}
			all.WriteString(p.Text)
		}
		if all.String() != sql {
			t.Errorf("%q: got %q", sql, all.String())
		}
	})
}
